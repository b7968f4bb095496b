// The scenario of benches/mobile.py in ns-3: its OLSR, its 802.11b, a movement file of ns-2 and a range-limited channel. Prints one
// line of JSON. With --flowmon FILE it also writes FlowMonitor's XML.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/flow-monitor-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/olsr-module.h"
#include "ns3/wifi-module.h"

#include <iostream>

using namespace ns3;

static uint64_t controlPackets, controlBytes;

// Counts what OLSR sends, with the Ethernet header that Belljar's captures have.
static void
Sent(const Ipv4Header& header, Ptr<const Packet> packet, uint32_t)
{
    UdpHeader udp;
    if (header.GetProtocol() == UdpL4Protocol::PROT_NUMBER && packet->PeekHeader(udp) && udp.GetDestinationPort() == 698)
    {
        controlPackets++;
        controlBytes += packet->GetSize() + header.GetSerializedSize() + 14;
    }
}

int
main(int argc, char* argv[])
{
    uint32_t nodes = 50, flows = 10, run = 1;
    double seconds = 120, start = 30, range = 250;
    std::string mobility, flowmon;
    CommandLine cmd(__FILE__);
    cmd.AddValue("nodes", "stations", nodes);
    cmd.AddValue("flows", "flows of 64-byte datagrams, four a second", flows);
    cmd.AddValue("seconds", "end of the simulation", seconds);
    cmd.AddValue("start", "start of the flows", start);
    cmd.AddValue("range", "reach in metres", range);
    cmd.AddValue("run", "number of the run", run);
    cmd.AddValue("mobility", "movement file of ns-2", mobility);
    cmd.AddValue("flowmon", "file for FlowMonitor's XML", flowmon);
    cmd.Parse(argc, argv);
    RngSeedManager::SetRun(run);

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
    InternetStackHelper internet;
    internet.SetRoutingHelper(olsr);
    internet.Install(all);
    Ipv4AddressHelper address;
    address.SetBase("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = address.Assign(devices);
    Config::ConnectWithoutContext("/NodeList/*/$ns3::Ipv4L3Protocol/SendOutgoing", MakeCallback(&Sent));

    for (uint32_t n = 0; n < flows; n++)
    {
        uint32_t to = (n + nodes / 2) % nodes;
        InetSocketAddress remote(interfaces.GetAddress(to), 9);
        OnOffHelper sender("ns3::UdpSocketFactory", remote);
        sender.SetConstantRate(DataRate(64 * 8 * 4), 64);
        ApplicationContainer senders = sender.Install(all.Get(n));
        senders.Start(Seconds(start + 0.1 * n));
        senders.Stop(Seconds(seconds - 5));
        PacketSinkHelper("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9)).Install(all.Get(to));
    }
    FlowMonitorHelper helper;
    Ptr<FlowMonitor> monitor = helper.InstallAll();
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    monitor->CheckForLostPackets();
    Ptr<Ipv4FlowClassifier> classifier = DynamicCast<Ipv4FlowClassifier>(helper.GetClassifier());
    uint64_t sent = 0, received = 0;
    double delay = 0;
    for (const auto& [id, flow] : monitor->GetFlowStats())
    {
        if (classifier->FindFlow(id).destinationPort == 9)
        {
            sent += flow.txPackets;
            received += flow.rxPackets;
            delay += flow.delaySum.GetSeconds();
        }
    }
    if (!flowmon.empty())
    {
        monitor->SerializeToXmlFile(flowmon, false, false);
    }
    std::cout << "{\"sent\": " << sent << ", \"received\": " << received << ", \"delay\": " << (received ? delay / received : 0)
              << ", \"control_packets\": " << controlPackets << ", \"control_bytes\": " << controlBytes << "}" << std::endl;
    Simulator::Destroy();
}
