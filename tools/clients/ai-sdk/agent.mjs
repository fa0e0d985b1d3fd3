// An agent with two tools, as users of the AI SDK write it, on both APIs, streaming and not.
//
//     node agent.mjs BASE_URL        prints one JSON line for each run

import { createOpenAI } from "@ai-sdk/openai";
import { ToolLoopAgent, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.argv[2], apiKey: "unused" });
const models = { responses: openai.responses("demo"), chat: openai.chat("demo") };
const tools = {
  get_weather: tool({
    description: "The weather of a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `sunny in ${city}`,
  }),
  get_time: tool({
    description: "What time it is.",
    inputSchema: z.object({}),
    execute: async () => "noon",
  }),
};
const prompt = 'before\n!call get_weather {"city": "Paris"}\n!call get_time {}';

for (const [api, model] of Object.entries(models)) {
  const agent = new ToolLoopAgent({ model, tools });
  for (const stream of [false, true]) {
    const run = stream ? await agent.stream({ prompt }) : await agent.generate({ prompt });
    const deltas = [];
    if (stream) {
      for await (const piece of run.fullStream) {
        if (piece.type === "error") throw piece.error;
        if (piece.type === "text-delta") deltas.push(piece.text);
      }
    }
    const steps = await run.steps;
    const said = {
      api,
      stream,
      deltas: deltas.join(""),
      texts: steps.map((step) => step.text),
      results: steps.flatMap((step) => step.toolResults.map((result) => [result.toolName, result.output])),
      ends: steps.map((step) => step.finishReason),
      warnings: steps.flatMap((step) => step.warnings ?? []),
      tokens: (await run.totalUsage).totalTokens,
    };
    console.log(JSON.stringify(said));
  }
}
