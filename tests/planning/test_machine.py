import os

from ttl_mm.planning.machine import this_machine


def test_the_machine_has_processors_and_memory():
    machine = this_machine()
    physical = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    assert 1 <= machine.cpus <= os.cpu_count()
    assert 0 < machine.host_memory <= physical
    assert machine.gpus or machine.memory == machine.host_memory
    assert machine.device == ('GPU' if machine.gpus else 'CPU')
