"""Ctrl-C that waits."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time

import pytest

from nbo._interrupts import held, repeated


def test_ctrl_c_waits_for_the_end_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), held():
        signal.raise_signal(signal.SIGINT)
        done.append(True)
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_comes_first():
    with pytest.raises(ValueError, match="mine"), held():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("mine")


def test_blocks_may_be_nested():
    done = []
    with pytest.raises(KeyboardInterrupt), held():
        with held():
            signal.raise_signal(signal.SIGINT)
        done.append(True)
    assert done == [True]


def test_a_handler_of_somebody_else_stays():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *event: pressed.append(event))
    try:
        with held():
            signal.raise_signal(signal.SIGINT)
            assert len(pressed) == 1
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_may_hold():
    done = []

    def work():
        with held():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_ctrl_c_that_was_dropped_comes_again():
    @ctypes.CFUNCTYPE(None)
    def compile_something():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), repeated():
        compile_something()
        time.sleep(5)
        pytest.fail("Ctrl-C was lost")


def test_other_errors_that_cannot_be_raised_are_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))

    @ctypes.CFUNCTYPE(None)
    def fail():
        raise ZeroDivisionError

    with repeated():
        fail()
    assert told == [ZeroDivisionError]
