// The P2P benchmark of the Phantom paper as applications in ns-3 (section 5.4): each host sends MESSAGES messages of 1 KiB
// over UDP to hosts drawn uniformly, and for each that it receives another one. Hosts are 25 ms from a hub, so 50 ms apart.
// The hub forwards by a calculation: ns-3's static routing would look through a route for each host.
//
//     ns3-p2p HOSTS MESSAGES SECONDS

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace ns3;

namespace
{
const uint16_t PORT = 7000;
std::vector<Ipv4Address> g_addresses;
std::vector<Ptr<Socket>> g_sockets;
std::vector<Ptr<NetDevice>> g_ports;
Ptr<UniformRandomVariable> g_draw;
uint64_t g_received = 0;

void
SendOne(uint32_t self)
{
    uint32_t to = g_draw->GetInteger(0, g_addresses.size() - 1);
    to = to == self ? (to + 1) % g_addresses.size() : to;
    g_sockets[self]->SendTo(Create<Packet>(1024), 0, InetSocketAddress(g_addresses[to], PORT));
}

void
Receive(uint32_t self, Ptr<Socket> socket)
{
    while (socket->Recv())
    {
        g_received++;
        SendOne(self);
    }
}

void
Start(uint32_t self, int messages)
{
    for (int n = 0; n < messages; n++)
    {
        SendOne(self);
    }
}
// A packet at the hub: on to the port of its destination.
void
Forward(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address&, const Address&, NetDevice::PacketType)
{
    Ipv4Header header;
    packet->PeekHeader(header);
    Ptr<NetDevice> port = g_ports[header.GetDestination().Get() - g_addresses[0].Get()];
    port->Send(packet->Copy(), port->GetBroadcast(), protocol);
}
} // namespace

int
main(int argc, char** argv)
{
    if (argc != 4)
    {
        return 2;
    }
    uint32_t hosts = std::atoi(argv[1]);
    int messages = std::atoi(argv[2]);
    int seconds = std::atoi(argv[3]);
    g_draw = CreateObject<UniformRandomVariable>();
    NodeContainer nodes;
    nodes.Create(hosts);
    Ptr<Node> hub = CreateObject<Node>();
    InternetStackHelper internet;
    internet.Install(nodes);
    hub->RegisterProtocolHandler(MakeCallback(&Forward), Ipv4L3Protocol::PROT_NUMBER, nullptr);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    link.SetChannelAttribute("Delay", StringValue("25ms"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    Ipv4AddressHelper address("10.0.0.0", "255.0.0.0");
    for (uint32_t n = 0; n < hosts; n++)
    {
        NetDeviceContainer ends = link.Install(nodes.Get(n), hub);
        g_ports.push_back(ends.Get(1));
        g_addresses.push_back(address.Assign(NetDeviceContainer(ends.Get(0))).GetAddress(0));
        TrafficControlHelper().Uninstall(ends.Get(0));
        Ptr<Socket> socket = Socket::CreateSocket(nodes.Get(n), UdpSocketFactory::GetTypeId());
        socket->SetAttribute("RcvBufSize", UintegerValue(64 << 20));
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        socket->SetRecvCallback(MakeBoundCallback(&Receive, n));
        g_sockets.push_back(socket);
        Simulator::Schedule(Seconds(1), &Start, n, messages);
    }
    Simulator::Stop(Seconds(1 + seconds));
    Simulator::Run();
    std::printf("received %llu\n", static_cast<unsigned long long>(g_received));
    Simulator::Destroy();
    return 0;
}
