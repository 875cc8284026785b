"""Names of interfaces: of this machine, and in what NCCL writes."""

import socket

from ttl_mm.selftest.network import gloo_interface, interface_of, nccl_interface


def test_the_interface_of_an_address():
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith('lo'))
    assert interface_of('127.0.0.1') == f'{loopback} (127.0.0.1)'
    assert interface_of('192.0.2.1') == '192.0.2.1'  # nobody's


def test_gloo_takes_the_interface_of_the_environment(monkeypatch):
    monkeypatch.setenv('GLOO_SOCKET_IFNAME', 'ib0')
    assert gloo_interface() == 'ib0'


def test_what_nccl_says_of_its_network():
    log = 'a:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n'
    ib = 'a:1:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n'
    assert nccl_interface(log + ib) == 'NET/IB mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>'
    assert nccl_interface(log) is None
