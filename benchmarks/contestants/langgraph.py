"""LangGraph's prebuilt ReAct agent on langchain-openai."""

from __future__ import annotations

from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    model = ChatOpenAI(model=task.model, base_url=task.base_url, api_key=API_KEY, stream_usage=True, max_retries=0)
    agent = create_react_agent(model, task.tools, prompt=INSTRUCTIONS)

    async def run(on_text: OnText) -> str:
        answer = []
        question = {"messages": [{"role": "user", "content": task.question}]}
        async for message, _ in agent.astream(question, stream_mode="messages"):
            if message.type == "AIMessageChunk" and message.content:
                answer.append(message.content)
                on_text(message.content)
        return "".join(answer)

    return run
