"""LangGraph's prebuilt ReAct agent with the OpenInference instrumentation of LangChain."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.documents import Document
from langchain_core.messages import SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
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
    agent: Any = create_react_agent(model, tools, prompt=INSTRUCTIONS, name="orders")
    if task.scenario == "recalled":
        agent = _recalling(agent)
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


class _Notes(BaseRetriever):
    """Notes about the customer, which take their time."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0.06)
        return [Document("Ann wants short answers.")]


def _recalling(agent: Any) -> Any:
    """A graph that looks for notes before it asks the agent."""
    notes = _Notes()

    async def recall(state: MessagesState) -> dict[str, Any]:
        found = await notes.ainvoke(state["messages"][-1].content)
        return {"messages": [SystemMessage(each.page_content) for each in found]}

    graph = StateGraph(MessagesState)
    graph.add_node("recall", recall)
    graph.add_node("orders", agent)
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "orders")
    return graph.compile(name="shop")
