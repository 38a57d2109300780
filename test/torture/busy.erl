%% Processes that send each other what they compute, exceptions, and garbage, checked, for as many seconds as the argument says.
-module(busy).
-export([main/1]).

main([Seconds]) ->
    End = erlang:monotonic_time(millisecond) + list_to_integer(Seconds) * 1000,
    Main = self(),
    Workers = [spawn_link(fun() -> Main ! {self(), work(End, 1)} end) || _ <- lists:seq(1, 6)],
    Requests = lists:sum([receive {Worker, Count} -> Count end || Worker <- Workers]),
    io:format("requests ~b~n", [Requests]).

work(End, N) ->
    one_round(N),
    case erlang:monotonic_time(millisecond) < End of
        true -> work(End, N + 1);
        false -> N
    end.

one_round(N) ->
    deep = try thrower(N rem 300) of _ -> none catch throw:What -> What end,
    332833500 = lists:sum([I * I || I <- lists:seq(0, 999)]),
    Self = self(),
    Child = spawn_link(fun() -> Self ! {self(), lists:foldl(fun(I, Map) -> Map#{I => I * N} end, #{}, lists:seq(1, 300))} end),
    Map = receive {Child, Result} -> Result end,
    true = lists:sum(maps:values(Map)) =:= 45150 * N,
    Binary = list_to_binary(lists:duplicate(100, <<"abc">>)),
    300 = byte_size(Binary),
    <<16#83, _/binary>> = term_to_binary(Map).

thrower(0) -> throw(deep);
thrower(N) -> 1 + thrower(N - 1).
