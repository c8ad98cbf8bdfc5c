// One run of an agent on Vercel's AI SDK, traced by itself: node vercel_ai.mjs SCENARIO URL FILE
//
// Its spans go to the file as OTLP JSON lines; what the SDK itself says of the run is printed as JSON. See one.py.

import { appendFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [scenario, url, path] = process.argv.slice(2);
let recording = false;

const exporter = {
  export(spans, done) {
    if (recording) appendFileSync(path, Buffer.from(JsonTraceSerializer.serializeRequest(spans)).toString() + "\n");
    done({ code: 0 });
  },
  async forceFlush() {},
  async shutdown() {},
};

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "shop" }),
  spanProcessors: [new BatchSpanProcessor(exporter)],
});
provider.register();

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const order_status = tool({
  description: "The status of an order.",
  inputSchema: z.object({ order_id: z.string().describe("The order's number.") }),
  execute: async ({ order_id }) => {
    await sleep(120);
    return { order_id, status: "shipped", parcel: "p-77" };
  },
});

const parcel_location = tool({
  description: "Where a parcel is.",
  inputSchema: z.object({ parcel: z.string().describe("The parcel's number.") }),
  execute: async ({ parcel }) => {
    await sleep(180);
    return { parcel, carrier: "DHL", location: "Shenzhen airport" };
  },
});

const customer_orders = tool({
  description: "The orders of a customer.",
  inputSchema: z.object({ customer: z.string().describe("The customer's number.") }),
  execute: async ({ customer }) => {
    await sleep(80);
    return { customer, orders: ["20250101"] };
  },
});

const refund = tool({
  description: "Give the money for an order back.",
  inputSchema: z.object({ order_id: z.string().describe("The order's number.") }),
  execute: async ({ order_id }) => {
    await sleep(50);
    throw new Error(`the order ${order_id} is not paid yet`);
  },
});

const TOOLS = {
  parallel: { order_status, parcel_location },
  stream: { order_status, parcel_location },
  turns: { customer_orders, order_status, parcel_location },
  failing: { refund },
};

async function ask() {
  const provider = createOpenAICompatible({ name: "shop", baseURL: url, apiKey: "sk-simulated", includeUsage: true });
  const asked = {
    model: provider("gpt-oss-20b"),
    tools: TOOLS[scenario],
    system: "You are the order desk of an online shop. Use the tools, then answer in a sentence or two.",
    prompt: "Where is my order 20250101?",
    stopWhen: stepCountIs(10),
    experimental_telemetry: { isEnabled: true, functionId: "orders" },
  };
  const began = performance.now();
  const result = scenario === "stream" ? streamText(asked) : await generateText(asked);
  if (scenario === "stream") for await (const _ of result.textStream);
  const seconds = (performance.now() - began) / 1000;
  const usage = await result.totalUsage;
  return {
    requests: (await result.steps).length,
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    answer: await result.text,
    error: "",
    seconds: Number(seconds.toFixed(6)),
  };
}

await ask();
await provider.forceFlush();
recording = true;
console.log(JSON.stringify(await ask()));
await provider.shutdown();
