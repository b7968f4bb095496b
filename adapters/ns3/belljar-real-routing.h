// Real routing for ns-3: a routing protocol of ns-3, unpatched, sets the routes of real network namespaces, and the kernel
// (or another data plane) forwards. Control packets alone pass through the simulator.
//
//     RealNetwork network("/run/routes.sock");          // the updater's socket: belljar-routed updater --socket ... --namespace n0 ...
//     network.SetFilter("udp port 698");                // control packets, in tcpdump's words
//     NetDeviceContainer link = network.Link(a, b);     // namespaces and a veth for two nodes of the script
//     addresses.Assign(link);                           // as always
//     network.Start(Seconds(1));                        // addresses to the kernel; routes from then on, every half second
//
// Stock ns-3 tells nobody of changes of routes: the tables of OLSR and AODV are read, other protocols are asked for a route to each
// address of the script (RouteOutput). The namespaces are named after the nodes (Names), or n0, n1, ...
//
// AODV looks for a route when a packet has none. With SetReactive the kernel's packets without a route come to it through a TUN
// interface of each namespace, `ns3`, and leave by a raw socket once there is a route; what the kernel forwards keeps routes alive.

#ifndef BELLJAR_REAL_ROUTING_H
#define BELLJAR_REAL_ROUTING_H

#include <ns3/core-module.h>
#include <ns3/fd-net-device-module.h>
#include <ns3/fd-reader.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace belljar
{

class RealNetwork
{
  public:
    explicit RealNetwork(const std::string& updater);
    ~RealNetwork();

    // Control packets, in tcpdump's words (`tcpdump -ddd` compiles them); all packets if it is empty.
    void SetFilter(const std::string& expression);
    // The protocol is AODV: it gets the packets of the kernel that have no route. It needs ARP: "udp port 654 or arp" is the filter.
    void SetReactive();
    // A node that another daemon runs in: it gets a namespace and links, and no device of ns-3's.
    void LeaveOut(ns3::Ptr<ns3::Node> node);
    // Joins two nodes by a veth between their namespaces, which are made unless they are there.
    ns3::NetDeviceContainer Link(ns3::Ptr<ns3::Node> a, ns3::Ptr<ns3::Node> b);
    // Gives the kernel's interfaces the addresses of ns-3's, and hands over routes from `first` on.
    void Start(ns3::Time first, ns3::Time interval = ns3::MilliSeconds(500));
    // The namespace of a node.
    std::string Namespace(ns3::Ptr<ns3::Node> node) const;

  private:
    // Destination, next hop (none for a neighbour) and interface of the kernel.
    using Route = std::tuple<ns3::Ipv4Address, ns3::Ipv4Address, uint32_t>;

    struct Member
    {
        ns3::Ptr<ns3::Node> node;
        std::string name;
        // By the number of ns-3's device: the kernel's index and name.
        std::map<uint32_t, std::pair<uint32_t, std::string>> interfaces;
        std::set<Route> routes;
        // Interfaces without a device of ns-3's.
        size_t left_out{0};
        int updater{-1};
        // With SetReactive: packets without a route, the socket that they leave by, and one that shows what passes.
        ns3::Ptr<ns3::FdReader> reader;
        int tun{-1};
        int raw{-1};
        int watch{-1};
        // The protocol's port, whose packets the kernel would otherwise answer.
        int port{-1};
    };

    Member& Join(ns3::Ptr<ns3::Node> node);
    ns3::Ptr<ns3::FdNetDevice> Attach(Member& member, const std::string& interface);
    void Catch(uint32_t id, Member& member);
    void Missed(uint32_t id, uint8_t* bytes, ssize_t len);
    void Look(uint32_t id, std::vector<uint8_t> bytes);
    void Release(uint32_t id, ns3::Ptr<ns3::Ipv4Route> route, ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header);
    void Refresh(const Member& member) const;
    void HandOver(ns3::Time interval);
    void HandOverOne(Member& member);
    std::set<Route> Routes(const Member& member) const;
    void Ask(Member& member, const std::string& request) const;

    std::string m_updater;
    std::string m_filter;
    bool m_reactive{false};
    std::map<uint32_t, Member> m_members;
    std::set<uint32_t> m_out;
    std::vector<std::string> m_made;
    // One end of each veth: namespace and interface.
    std::vector<std::pair<std::string, std::string>> m_links;
};

} // namespace belljar

#endif
