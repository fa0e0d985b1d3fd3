"""The OpenAI Agents SDK, unmodified, runs an agent with two tools on both APIs."""

import openai
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)

from tests.support.openai_oracle import Court
from tests.support.served import Served


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@function_tool
def get_time() -> str:
    """What time it is."""
    return "noon"


@pytest.mark.parametrize("kind", [OpenAIResponsesModel, OpenAIChatCompletionsModel])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_two_tool_agent(
    served: Served, kind: type[OpenAIResponsesModel] | type[OpenAIChatCompletionsModel], stream: bool
) -> None:
    court = Court()
    http = openai.DefaultAsyncHttpxClient(transport=court)
    async with openai.AsyncOpenAI(base_url=f"{served.base}/v1", api_key="unused", http_client=http) as client:
        model = kind(model="demo", openai_client=client)
        agent = Agent(name="helper", model=model, tools=[get_weather, get_time], model_settings=ModelSettings())
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
    assert (court.judged > 0) is (kind is OpenAIResponsesModel)
