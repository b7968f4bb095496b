#!/usr/bin/python3
"""A client of echo.c: each answer is complete, and no connection ends.

    echo.py SERVER COUNT"""

import socket
import sys
import time

LENGTH = 3000


def main(server, count):
    connection = socket.create_connection((server, 7010), timeout=20)
    answers = connection.makefile("rb")
    for number in range(count):
        connection.sendall(b"%d\n" % number)
        try:
            answer = answers.readline()
        except TimeoutError:
            print("wrong: no answer", number, flush=True)
            return
        expected = bytes([ord("a") + number % 26]) * (LENGTH - 1) + b"\n"
        if answer != expected:
            print("wrong:", "the connection ended" if not answer else f"{len(answer)} bytes", number, flush=True)
            return
        time.sleep(0.2)
    print("all answers", flush=True)


main(sys.argv[1], int(sys.argv[2]))
