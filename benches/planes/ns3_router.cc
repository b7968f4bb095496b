// A router in ns-3's real-time simulator, on interfaces of the network namespace that it runs in: "traditional emulation".
//
//     ns3_router NAME=ADDRESS... DESTINATION=NEXT_HOP=NUMBER...
//
// Names are interfaces, with the address of the router there; the others are static routes to /24 networks, by the number of
// the interface in the order of the names. FdNetDevice gets a descriptor of ours: Debian's helpers look for their socket
// creator at a path that is not there.

#include <ns3/core-module.h>
#include <ns3/fd-net-device-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

using namespace ns3;

// A packet socket on an interface, and the interface's address.
static int
OpenInterface(const std::string& name, Mac48Address& mac)
{
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    int on = 1;
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) < 0)
    {
        std::perror(name.c_str());
        std::exit(1);
    }
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    ioctl(fd, SIOCGIFHWADDR, &request);
    mac.CopyFrom(reinterpret_cast<uint8_t*>(request.ifr_hwaddr.sa_data));
    return fd;
}

int
main(int argc, char** argv)
{
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::RealtimeSimulatorImpl"));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));
    Ptr<Node> node = CreateObject<Node>();
    InternetStackHelper internet;
    internet.Install(node);
    Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
    std::vector<uint32_t> interfaces;
    Ipv4StaticRoutingHelper routing;
    for (int i = 1; i < argc; i++)
    {
        std::string word = argv[i];
        auto equals = word.find('=');
        auto second = word.find('=', equals + 1);
        std::string left = word.substr(0, equals);
        if (second != std::string::npos)
        {
            Ipv4Address next(word.substr(equals + 1, second - equals - 1).c_str());
            uint32_t number = std::stoul(word.substr(second + 1));
            routing.GetStaticRouting(ipv4)->AddNetworkRouteTo(Ipv4Address(left.c_str()), Ipv4Mask("255.255.255.0"), next,
                                                              interfaces.at(number));
            continue;
        }
        Mac48Address mac;
        int fd = OpenInterface(left, mac);
        Ptr<FdNetDevice> device = CreateObject<FdNetDevice>();
        device->SetAddress(mac);
        node->AddDevice(device);
        device->SetFileDescriptor(fd);
        uint32_t interface = ipv4->AddInterface(device);
        ipv4->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(word.substr(equals + 1).c_str()), Ipv4Mask("255.255.255.0")));
        ipv4->SetUp(interface);
        interfaces.push_back(interface);
    }
    Simulator::Run();
    return 0;
}
