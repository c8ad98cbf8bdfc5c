import hotloop.testing
from hotloop import Agent, tool
from hotloop.testing import ScriptedModel, SimulatedService, call, run_virtual, say


@tool(read_only=True)
async def query_order_status(order_id: str) -> dict:
    """Current status of an order."""
    return {"order_id": order_id, "status": "shipped"}


def test_everything_public_is_listed_in_order():
    names = hotloop.testing.__all__
    assert names == sorted(names)
    assert all(hasattr(hotloop.testing, name) for name in names)


def test_an_agent_runs_on_a_script_in_virtual_time():
    async def main():
        model = ScriptedModel(
            [say("One moment.", call("query_order_status", order_id="1024")), "It has shipped."],
            ttft=0.020,
            tpot=0.002,
        )
        async with Agent(model="scripted", endpoint=model, tools=[query_order_status]) as agent:
            result = await agent.run("Where is order 1024?")
        return model, result

    model, result = run_virtual(main())
    assert result.output == "It has shipped."
    assert len(model.requests) == 2
    result_message = model.requests[1]["messages"][-1]
    assert (result_message["role"], result_message["content"]) == ("tool", '{"order_id":"1024","status":"shipped"}')
    one, other = (turn.ttft for turn in result.trace.turns)
    assert one == other == 20_000_000


async def test_the_same_script_runs_over_sockets():
    script = [call("query_order_status", order_id="1024"), "It has shipped."]
    async with (
        SimulatedService(script) as service,
        Agent(model="simulated", endpoint=service.url, tools=[query_order_status]) as agent,
    ):
        results = [await agent.run("Where is order 1024?") for _ in range(3)]
    assert [result.output for result in results] == ["It has shipped."] * 3


async def test_any_agent_works_on_a_service_without_a_script():
    async with (
        SimulatedService() as service,
        Agent(model="simulated", endpoint=service.url, tools=[query_order_status]) as agent,
    ):
        result = await agent.run("Where is order 1024?")
    assert result.output == "query_order_status answered: order_id 1024, status shipped."
