"""The OpenAI Agents SDK, unmodified, runs an agent with two tools on both APIs."""

import pytest

from tests.support.served import Served


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def get_time() -> str:
    """What time it is."""
    return "noon"


@pytest.mark.parametrize("kind", ["OpenAIResponsesModel", "OpenAIChatCompletionsModel"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_two_tool_agent(served: Served, kind: str, stream: bool) -> None:
    import agents
    import openai
    from agents import Agent, ModelSettings, RunConfig, Runner, function_tool

    from tests.support.validator import ValidatingTransport

    make = getattr(agents, kind)
    validator = ValidatingTransport()
    http = openai.DefaultAsyncHttpxClient(transport=validator)
    async with openai.AsyncOpenAI(base_url=f"{served.base}/v1", api_key="unused", http_client=http) as client:
        model = make(model="demo", openai_client=client)
        tools = [function_tool(get_weather), function_tool(get_time)]
        agent = Agent(name="helper", model=model, tools=tools, model_settings=ModelSettings())
        asked = '!call get_weather {"city": "Paris"}\n!call get_time {}'
        quiet = RunConfig(tracing_disabled=True)
        if stream:
            result = Runner.run_streamed(agent, asked, run_config=quiet)
            async for _event in result.stream_events():
                continue
            assert "noon" in result.final_output
        else:
            assert "noon" in (await Runner.run(agent, asked, run_config=quiet)).final_output
        assert len(served.prompts()) == 1
    assert (validator.judged > 0) is (kind == "OpenAIResponsesModel")
