// The scenario of benches/mobile.py in ns-3: its OLSR or AODV, its 802.11b, a movement file of ns-2 and a range-limited channel.
// Prints one line of JSON. With --flowmon FILE it also writes FlowMonitor's XML. Any attribute of ns-3 can be set, as in
// --ns3::ArpCache::DeadTimeout=1s.
#include "ns3/aodv-module.h"
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/flow-monitor-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/olsr-module.h"
#include "ns3/wifi-module.h"

#include <iostream>
#include <map>

using namespace ns3;

static const uint16_t dataPort = 9;

static uint64_t offered, controlPackets, controlBytes;
static uint16_t controlPort;
// What the protocol sends counts while the flows send.
static Time countFrom, countUntil;
// Datagrams of the flows that were lost, by the place.
static std::map<std::string, uint64_t> lost;

// Counts what the protocol sends, with the Ethernet header that Belljar's captures have.
static void
Sent(const Ipv4Header& header, Ptr<const Packet> packet, uint32_t)
{
    UdpHeader udp;
    if (Simulator::Now() >= countFrom && Simulator::Now() < countUntil &&
        header.GetProtocol() == UdpL4Protocol::PROT_NUMBER && packet->PeekHeader(udp) &&
        udp.GetDestinationPort() == controlPort)
    {
        controlPackets++;
        controlBytes += packet->GetSize() + header.GetSerializedSize() + 14;
    }
}

static void
CountLost(const std::string& place, const Ipv4Header& header, Ptr<Packet> rest)
{
    UdpHeader udp;
    if (header.GetProtocol() == UdpL4Protocol::PROT_NUMBER && rest->PeekHeader(udp) && udp.GetDestinationPort() == dataPort)
    {
        lost[place]++;
    }
}

static void
LostByIp(const Ipv4Header& header, Ptr<const Packet> packet, Ipv4L3Protocol::DropReason reason, Ptr<Ipv4>, uint32_t)
{
    CountLost(reason == Ipv4L3Protocol::DROP_TTL_EXPIRED ? "ttl" : "no route", header, packet->Copy());
}

// While its next hop was asked for by ARP, or counted as dead.
static void
LostByArp(Ptr<const Packet> packet)
{
    Ptr<Packet> rest = packet->Copy();
    Ipv4Header header;
    if (rest->RemoveHeader(header))
    {
        CountLost("arp", header, rest);
    }
}

static void
LostByMac(WifiMacDropReason reason, Ptr<const WifiMpdu> mpdu)
{
    Ptr<Packet> rest = mpdu->GetPacket()->Copy();
    LlcSnapHeader llc;
    Ipv4Header header;
    if (rest->GetSize() > llc.GetSerializedSize() && rest->RemoveHeader(llc) && llc.GetType() == Ipv4L3Protocol::PROT_NUMBER &&
        rest->RemoveHeader(header))
    {
        CountLost(reason == WIFI_MAC_DROP_REACHED_RETRY_LIMIT ? "given up" : "mac queue", header, rest);
    }
}

// A datagram every 250 ms. FlowMonitor sees only those that find a route, so they are counted here.
static void
Send(Ptr<Socket> socket, Time end)
{
    offered++;
    socket->Send(Create<Packet>(64));
    if (Simulator::Now() + MilliSeconds(250) < end)
    {
        Simulator::Schedule(MilliSeconds(250), &Send, socket, end);
    }
}

int
main(int argc, char* argv[])
{
    uint32_t nodes = 50, flows = 10, run = 1;
    double seconds = 120, start = 30, range = 250;
    std::string protocol = "olsr", mobility, flowmon;
    bool noArp = false;
    CommandLine cmd(__FILE__);
    cmd.AddValue("protocol", "olsr or aodv", protocol);
    cmd.AddValue("nodes", "stations", nodes);
    cmd.AddValue("flows", "flows of 64-byte datagrams, four a second", flows);
    cmd.AddValue("seconds", "end of the simulation", seconds);
    cmd.AddValue("start", "start of the flows", start);
    cmd.AddValue("range", "reach in metres", range);
    cmd.AddValue("run", "number of the run", run);
    cmd.AddValue("mobility", "movement file of ns-2", mobility);
    cmd.AddValue("no-arp", "stations know all hardware addresses", noArp);
    cmd.AddValue("flowmon", "file for FlowMonitor's XML", flowmon);
    cmd.Parse(argc, argv);
    RngSeedManager::SetRun(run);
    countFrom = Seconds(start);
    countUntil = Seconds(seconds - 5);

    NodeContainer all;
    all.Create(nodes);
    Ns2MobilityHelper(mobility).Install();
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::RangePropagationLossModel", "MaxRange", DoubleValue(range));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue("DsssRate11Mbps"), "ControlMode",
                                 StringValue("DsssRate2Mbps"), "NonUnicastMode", StringValue("DsssRate2Mbps"));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    NetDeviceContainer devices = wifi.Install(phy, mac, all);
    OlsrHelper olsr;
    AodvHelper aodv;
    controlPort = protocol == "aodv" ? 654 : 698;
    InternetStackHelper internet;
    if (protocol == "aodv")
    {
        internet.SetRoutingHelper(aodv);
    }
    else
    {
        internet.SetRoutingHelper(olsr);
    }
    internet.Install(all);
    Ipv4AddressHelper address;
    address.SetBase("10.0.0.0", nodes < 250 ? "255.255.255.0" : "255.255.0.0");
    Ipv4InterfaceContainer interfaces = address.Assign(devices);
    // AODV hears from the link layer of those neighbours alone that ARP has found, or that are permanent: entries of
    // NeighborCacheHelper are neither.
    for (uint32_t n = 0; noArp && n < nodes * nodes; n++)
    {
        Ptr<Ipv4Interface> own = all.Get(n / nodes)->GetObject<Ipv4L3Protocol>()->GetInterface(1);
        ArpCache::Entry* entry = own->GetArpCache()->Add(interfaces.GetAddress(n % nodes));
        entry->SetMacAddress(devices.Get(n % nodes)->GetAddress());
        entry->MarkPermanent();
    }
    Config::ConnectWithoutContext("/NodeList/*/$ns3::Ipv4L3Protocol/SendOutgoing", MakeCallback(&Sent));
    Config::ConnectWithoutContext("/NodeList/*/$ns3::Ipv4L3Protocol/Drop", MakeCallback(&LostByIp));
    Config::ConnectWithoutContext("/NodeList/*/$ns3::ArpL3Protocol/Drop", MakeCallback(&LostByArp));
    Config::ConnectWithoutContext("/NodeList/*/$ns3::ArpL3Protocol/CacheList/*/Drop", MakeCallback(&LostByArp));
    Config::ConnectWithoutContext("/NodeList/*/DeviceList/*/$ns3::WifiNetDevice/Mac/DroppedMpdu", MakeCallback(&LostByMac));

    for (uint32_t n = 0; n < flows; n++)
    {
        uint32_t to = (n + nodes / 2) % nodes;
        PacketSinkHelper("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), dataPort)).Install(all.Get(to));
        Ptr<Socket> socket = Socket::CreateSocket(all.Get(n), UdpSocketFactory::GetTypeId());
        socket->Connect(InetSocketAddress(interfaces.GetAddress(to), dataPort));
        Simulator::Schedule(Seconds(start + 0.1 * n), &Send, socket, Seconds(seconds - 5));
    }
    FlowMonitorHelper helper;
    Ptr<FlowMonitor> monitor = helper.InstallAll();
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    monitor->CheckForLostPackets();
    Ptr<Ipv4FlowClassifier> classifier = DynamicCast<Ipv4FlowClassifier>(helper.GetClassifier());
    uint64_t received = 0;
    double delay = 0;
    for (const auto& [id, flow] : monitor->GetFlowStats())
    {
        if (classifier->FindFlow(id).destinationPort == dataPort)
        {
            received += flow.rxPackets;
            delay += flow.delaySum.GetSeconds();
        }
    }
    if (!flowmon.empty())
    {
        monitor->SerializeToXmlFile(flowmon, false, false);
    }
    std::cout << "{\"sent\": " << offered << ", \"received\": " << received << ", \"delay\": " << (received ? delay / received : 0)
              << ", \"control_packets\": " << controlPackets << ", \"control_bytes\": " << controlBytes << ", \"lost\": {";
    std::string separator;
    for (const auto& [place, datagrams] : lost)
    {
        std::cout << separator << "\"" << place << "\": " << datagrams;
        separator = ", ";
    }
    std::cout << "}}" << std::endl;
    Simulator::Destroy();
}
