"""Rules as Istio's tools leave them: the text that was given to iptables-restore and to nft."""

V1_11 = """* nat
-N ISTIO_INBOUND
-N ISTIO_REDIRECT
-N ISTIO_IN_REDIRECT
-N ISTIO_OUTPUT
-A PREROUTING -i eth1 -j RETURN
-A OUTPUT -o eth1 -j RETURN
-I PREROUTING 1 -i vnet0 -j RETURN
-A ISTIO_INBOUND -p tcp --dport 15008 -j RETURN
-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001
-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006
-A PREROUTING -p tcp -j ISTIO_INBOUND
-A ISTIO_INBOUND -p tcp --dport 22 -j RETURN
-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT
-A OUTPUT -p tcp -j ISTIO_OUTPUT
-A ISTIO_OUTPUT -o lo -s 127.0.0.6/32 -j RETURN
-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN
-A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j RETURN
-A OUTPUT -p udp --dport 53 -m owner --gid-owner 1337 -j RETURN
-A OUTPUT -p udp --dport 53 -d 10.0.0.53/32 -j REDIRECT --to-port 15053
-I PREROUTING 1 -i vnet0 -j ISTIO_REDIRECT
-A ISTIO_OUTPUT -j ISTIO_REDIRECT
COMMIT
* raw
-A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j CT --zone 1
-A OUTPUT -p udp --sport 15053 -m owner --uid-owner 1337 -j CT --zone 2
-A OUTPUT -p udp --dport 53 -d 10.0.0.53/32 -j CT --zone 2
-A PREROUTING -p udp --sport 53 -d 10.0.0.53/32 -j CT --zone 1
COMMIT
"""
TPROXY = """* mangle
-N ISTIO_DIVERT
-N ISTIO_TPROXY
-N ISTIO_INBOUND
-N ISTIO_DROP
-A ISTIO_DIVERT -j MARK --set-mark 1400
-A ISTIO_DIVERT -j ACCEPT
-A ISTIO_TPROXY ! -d 127.0.0.1/32 -p tcp -j TPROXY --tproxy-mark 1400/0xffffffff --on-port 15006
-A PREROUTING -m conntrack --ctstate INVALID -j ISTIO_DROP
-A PREROUTING -p tcp -j ISTIO_INBOUND
-A ISTIO_INBOUND -p tcp -j ISTIO_TPROXY
-A PREROUTING -p tcp -m mark --mark 1400 -j CONNMARK --save-mark
-A OUTPUT -p tcp -o lo -m mark --mark 1400 -j RETURN
-A OUTPUT ! -d 127.0.0.1/32 -p tcp -o lo -m owner --uid-owner 1337 -j MARK --set-mark 1338
-A OUTPUT -p tcp -m connmark --mark 1400 -j CONNMARK --restore-mark
COMMIT
* nat
-N ISTIO_OUTPUT
-N ISTIO_OUTPUT_DNS
-A OUTPUT -j ISTIO_OUTPUT
-A ISTIO_OUTPUT -j ISTIO_OUTPUT_DNS
COMMIT
"""
NFT = """
table inet istio-proxy-nat {
  chain istio-redirect {
    meta l4proto tcp counter redirect to :15001
  }
  chain output {
    type nat hook output priority -100; policy accept;
    counter jump istio-redirect
  }
}
table inet istio-proxy-mangle {
  chain istio-divert {
    meta mark set 1400 counter
  }
}
table inet istio-proxy-raw {
}
"""
ROUTES = (
    "rule add fwmark 1400 lookup 140",
    "rule add fwmark 1400 lookup 140 priority 77",
    "route add local 0.0.0.0/0 dev lo table 140",
)
FOREIGN = """*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A DOCKER -i docker0 -j RETURN
-A PREROUTING -i other0 -j RETURN
COMMIT
*filter
:FORWARD DROP [0:0]
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "a b 'c'" -j ACCEPT
COMMIT
*mangle
-A OUTPUT -p tcp -m mark --mark 0x7 -j RETURN
COMMIT
"""
