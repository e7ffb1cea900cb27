"""Evaluates Erlang expressions in a running RabbitMQ: a millisecond, where rabbitmqctl takes 0.5 s.

The broker listens for them itself, on 127.0.0.1, and answers whoever knows its cookie.
"""

import socket

_LENGTH_BYTES = 4
_OK = "ok:"

#: Evaluated by Erlang at the broker's start; a length precedes each question and each answer.
_SERVER = """\
spawn(fun() ->
    {{ok, Listener}} = gen_tcp:listen({port}, [
        {{ip, {{127, 0, 0, 1}}}}, binary, {{packet, 4}}, {{active, false}}, {{reuseaddr, true}}
    ]),
    Evaluate = fun(Text) ->
        {{ok, Tokens, _}} = erl_scan:string(unicode:characters_to_list(Text)),
        {{ok, Expressions}} = erl_parse:parse_exprs(Tokens),
        {{value, Value, _}} = erl_eval:exprs(Expressions, []),
        Value
    end,
    Serve = fun Serve() ->
        {{ok, Caller}} = gen_tcp:accept(Listener),
        case gen_tcp:recv(Caller, 0) of
            {{ok, <<"{cookie}", Text/binary>>}} ->
                Answer = try io_lib:format("ok:~0tp", [Evaluate(Text)])
                catch Class:Reason -> io_lib:format("~0tp: ~0tp", [Class, Reason]) end,
                gen_tcp:send(Caller, unicode:characters_to_binary(Answer));
            _ -> ok
        end,
        gen_tcp:close(Caller),
        Serve()
    end,
    Serve()
end).
"""


def server(port: int, cookie: str) -> str:
    """Return the Erlang text that makes a node answer at this port."""
    return _SERVER.format(port=port, cookie=cookie)


def evaluate(port: int, cookie: str, expressions: str) -> str:
    """Return the value of the last of these expressions, in Erlang's words.

    Raises:
        AssertionError: with Erlang's reason.
        OSError: nobody listens there.

    """
    with socket.create_connection(("127.0.0.1", port), timeout=180) as link:
        question = (cookie + expressions).encode()
        link.sendall(len(question).to_bytes(_LENGTH_BYTES) + question)
        with link.makefile("rb") as answers:
            length = int.from_bytes(answers.read(_LENGTH_BYTES))
            answer = answers.read(length).decode()
    assert answer.startswith(_OK), f"{expressions}: {answer}"
    return answer.removeprefix(_OK)
