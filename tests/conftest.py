"""One thread per test process: two processes with two threads each fight over two cores."""

from netgrain.runtime.threads import one_thread_for_good

one_thread_for_good()
