// A host of ns-3 behind an interface of this machine, in real time: FdNetDevice over a packet socket. Counts what UDP and TCP bring to it.
//
//   fd_sink INTERFACE ADDRESS PORT SECONDS

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/fd-net-device-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include <arpa/inet.h>
#include <iostream>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>

using namespace ns3;

static uint64_t g_packets, g_bytes;

static void
Received(Ptr<const Packet> packet, const Address&)
{
    g_packets++;
    g_bytes += packet->GetSize();
}

int
main(int argc, char* argv[])
{
    if (argc != 5)
    {
        std::cerr << "fd_sink INTERFACE ADDRESS PORT SECONDS\n";
        return 2;
    }
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::RealtimeSimulatorImpl"));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    sockaddr_ll where{};
    where.sll_family = AF_PACKET;
    where.sll_protocol = htons(ETH_P_ALL);
    where.sll_ifindex = if_nametoindex(argv[1]);
    packet_mreq all{};
    all.mr_ifindex = where.sll_ifindex;
    all.mr_type = PACKET_MR_PROMISC;
    if (fd < 0 || bind(fd, (sockaddr*)&where, sizeof where) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
    {
        std::perror("fd_sink");
        return 1;
    }
    Ptr<Node> node = CreateObject<Node>();
    Ptr<FdNetDevice> device = CreateObject<FdNetDevice>();
    device->SetFileDescriptor(fd);
    device->SetAddress(Mac48Address("02:00:00:00:00:77"));
    node->AddDevice(device);
    InternetStackHelper().Install(node);
    Ptr<Ipv4> ip = node->GetObject<Ipv4>();
    uint32_t interface = ip->AddInterface(device);
    ip->AddAddress(interface, Ipv4InterfaceAddress(argv[2], "255.255.255.0"));
    ip->SetUp(interface);
    uint16_t port = std::stoi(argv[3]);
    for (const char* kind : {"ns3::UdpSocketFactory", "ns3::TcpSocketFactory"})
    {
        PacketSinkHelper sink(kind, InetSocketAddress(Ipv4Address::GetAny(), port));
        sink.Install(node).Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Received));
    }
    Simulator::Stop(Seconds(std::stod(argv[4])));
    Simulator::Run();
    std::cout << "packets " << g_packets << " bytes " << g_bytes << std::endl;
    return 0;
}
