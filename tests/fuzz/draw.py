"""Draws sequences of calls for interpreter.c: the same seed, the same sequence."""

from . import draw_credentials, draw_netlink, draw_waits
from .draw_files import (
    child_lock, close, close_some, directory, duplicate, event_value, eventfd, fcntl, flock, good_file, inotify,
    ioctl, lock, memfd, move, names, open_, open_beneath, pipe, pipe_size, place, poll, same_file, seal, sealed,
    select, transfer, unnamed, watch,
)
from .draw_processes import (
    epoll, epoll_use, memory, process, signal, signalfd, timer, timerfd,
)
from .draw_sockets import (
    ending, name_socket, option, pass_along, receive, send, shared_port, socket, socketpair, stream_of, udp6_pair,
    udp_pair,
)
from .drawing import SLOTS, Draw

THEMES = {
    "pipes": ([pipe] * 3 + [good_file, socketpair], [transfer] * 8 + [move] * 6 + [ioctl, fcntl, poll, close, duplicate]),
    "tcp": ([stream_of(2)] * 2 + [stream_of(10), socket, shared_port], [name_socket] * 4 + [send] * 6 + [receive] * 6 + [option] * 4 + [ioctl, poll, close, transfer, duplicate]),
    "udp": ([udp_pair] * 3 + [udp6_pair, shared_port, socket], [name_socket] * 4 + [send] * 6 + [receive] * 6 + [option] * 4 + [ioctl, poll, close, transfer]),
    "unix": ([socketpair] * 3 + [stream_of(1), socket, good_file], [name_socket] * 4 + [send] * 7 + [receive] * 7 + [option, option, ioctl, poll, close, transfer, fcntl, duplicate]),
    "epoll": ([epoll] * 2 + [pipe, eventfd, socketpair, stream_of(2), udp_pair, timerfd, good_file], [epoll_use] * 10 + [transfer] * 4 + [send, receive, event_value, close, duplicate, poll, select, timer]),
    "files": ([good_file] * 3 + [directory, open_, open_beneath, unnamed, memfd, inotify], [transfer] * 6 + [place] * 6 + [names] * 8 + [open_] * 4 + [open_beneath, unnamed] + [lock, lock, flock, fcntl, close, duplicate, move, event_value]),
    "signals": ([signalfd, eventfd, pipe, timerfd], [signal] * 12 + [timer] * 4 + [process] * 2 + [event_value, poll, transfer]),
    "timers": ([timerfd] * 2 + [signalfd, epoll], [timer] * 10 + [signal] * 4 + [event_value] * 4 + [epoll_use, poll, select]),
    "rights": ([socketpair] * 3 + [stream_of(1), pipe, good_file, epoll], [pass_along] * 12 + [close, close, poll, transfer, epoll_use, ending, fcntl]),
    "endings": ([stream_of(2)] * 3 + [stream_of(10), stream_of(1), socketpair, epoll], [ending] * 10 + [send, receive, poll, epoll_use, ioctl, option, name_socket]),
    "watches": ([inotify] * 2 + [good_file, good_file, directory, unnamed, open_], [watch] * 8 + [names] * 8 + [transfer, place, open_, close, duplicate, move]),
    "locks": ([same_file] * 3 + [good_file, memfd], [lock] * 6 + [flock] * 4 + [child_lock] * 4 + [close, close, duplicate, close_some, open_]),
    "seals": ([sealed] * 3 + [memfd], [seal] * 12 + [close, transfer, place, memory, memory, move]),
    "capacities": ([pipe] * 4 + [epoll], [pipe_size] * 3 + [transfer] * 6 + [move] * 4 + [epoll_use] * 2 + [poll, ioctl, close, close_some]),
    "processes": ([pipe, signalfd, good_file], [process] * 12 + [signal] * 4 + [lock, transfer, event_value]),
    "memory": ([good_file] * 2 + [memfd, pipe], [memory] * 12 + [transfer] * 3 + [place] * 3),
}
EVERYTHING = [pipe, eventfd, good_file, open_, directory, memfd, socketpair, socket, udp_pair, stream_of(2), epoll, timerfd, signalfd, inotify]
ACTIONS = [close, duplicate, fcntl, lock, transfer, transfer, event_value, place, move, ioctl, poll, select, epoll_use, epoll_use,
           name_socket, send, receive, option, names, signal, timer, process, memory]


# The first seeds of the second, third and fourth generation.
SECOND = 10**9
THIRD = 2 * 10**9
FOURTH = 3 * 10**9


def draw(seed, length=40):
    """The lines of a sequence."""
    d = Draw(seed)
    if seed >= FOURTH:
        draw_netlink.draw(d, length)
        return d.lines
    if seed < SECOND:
        themes = [*THEMES.values(), (EVERYTHING, ACTIONS)]
    else:
        themes = draw_waits.THEMES if seed < THIRD else draw_credentials.THEMES
    creators, actions = d.r.choice(themes)
    if seed >= THIRD:
        draw_credentials.begin(d)
    for creator in d.r.choices(creators, k=3):
        creator(d)
    while len(d.lines) < length:
        creating = d.r.random() < (0.15 if len(d.kinds) < SLOTS - 2 else 0.02)
        d.r.choice(creators if creating else actions)(d)
    return d.lines
