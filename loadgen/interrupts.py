"""Ctrl-C in the second in which a program's modules are imported: it ends the program, and no traceback is shown."""

import signal


def quiet() -> None:
    """Let an interrupt end the process at once, as a signal does, until it is heard; one that is ignored stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def heard() -> None:
    """Let an interrupt be a `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
