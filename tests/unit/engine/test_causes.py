"""A JVM that is gone does not come back by waiting: only a new process helps."""

from __future__ import annotations

import socket

import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway
from tests.free_port import free_port

from twice.core.failure.transience import Nature, judge
from twice.engine.causes import signs


def test_a_call_into_a_jvm_that_is_gone_is_permanent_however_py4j_raises_it() -> None:
    # pyspark uses the second kind, which lets the plain ConnectionRefusedError through.
    gateways = (
        JavaGateway(gateway_parameters=GatewayParameters(port=free_port())),
        ClientServer(JavaParameters(port=free_port()), PythonParameters(port=0)),
    )
    for gateway in gateways:
        with pytest.raises(Exception) as raised:
            gateway.jvm.java.lang.System.currentTimeMillis()
        assert judge(signs(raised.value)).nature is Nature.PERMANENT, repr(raised.value)
    gateways[1].shutdown_callback_server()


def test_a_refused_connection_of_the_users_own_code_is_transient() -> None:
    with pytest.raises(ConnectionRefusedError) as raised, socket.socket() as client:
        client.connect(("127.0.0.1", free_port()))
    assert judge(signs(raised.value)).nature is Nature.TRANSIENT
