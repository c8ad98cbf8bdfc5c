"""LangGraph's prebuilt ReAct agent with the OpenInference instrumentation of LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import get_usage_metadata_callback
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from work import API_KEY, DESK, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenInference has it."""
    LangChainInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run."""
    model = ChatOpenAI(model=MODEL, base_url=task.url, api_key=API_KEY, stream_usage=True)
    tools = task.tools
    if task.scenario == "subagent":
        tools = [_subagent(model, tools)]
    agent = create_react_agent(model, tools, prompt=INSTRUCTIONS, name="orders")
    asked = {"messages": [{"role": "user", "content": task.question}]}
    with timed() as clock, get_usage_metadata_callback() as counted:
        if task.streamed:
            state: dict[str, Any] = {}
            async for mode, part in agent.astream(asked, stream_mode=["messages", "values"]):
                state = part if mode == "values" else state
        else:
            state = await agent.ainvoke(asked)
    (usage,) = counted.usage_metadata.values()
    answer = state["messages"][-1].content
    return Told(None, usage["input_tokens"], usage["output_tokens"], answer, seconds=clock.seconds)


def _subagent(model: ChatOpenAI, tools: list[Any]) -> Any:
    desk = create_react_agent(model, tools, prompt=DESK, name="carrier_desk")

    async def ask_carrier_desk(parcel: str) -> str:
        """Ask the carrier desk where a parcel is.

        Args:
            parcel: The parcel's number.
        """
        state = await desk.ainvoke({"messages": [{"role": "user", "content": f"Where is the parcel {parcel}?"}]})
        return state["messages"][-1].content

    return ask_carrier_desk
