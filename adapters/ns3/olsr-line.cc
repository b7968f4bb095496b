// A line of nodes whose routes are set by ns-3's OLSR and whose packets are forwarded by the kernel.
//
//     ip netns add n0; ip netns add n1; ip netns add n2
//     belljar-routed updater --socket /run/routes.sock --namespace n0 --namespace n1 --namespace n2
//     olsr-line --nodes=3 --updater=/run/routes.sock --seconds=30
//

#include "belljar-real-routing.h"

#include <ns3/olsr-module.h>

using namespace ns3;

int
main(int argc, char** argv)
{
    uint32_t nodes = 3;
    double seconds = 30;
    bool outside = false;
    std::string updater = "/run/routes.sock";
    CommandLine cmd(__FILE__);
    cmd.AddValue("nodes", "nodes of the line", nodes);
    cmd.AddValue("seconds", "seconds to run", seconds);
    cmd.AddValue("updater", "the updater's socket", updater);
    cmd.AddValue("outside", "the first node is another daemon's", outside);
    cmd.Parse(argc, argv);
    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::RealtimeSimulatorImpl"));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));

    NodeContainer line;
    line.Create(nodes);
    belljar::RealNetwork network(updater);
    network.SetFilter("udp port 698");
    if (outside)
    {
        network.LeaveOut(line.Get(0));
    }
    std::vector<NetDeviceContainer> links;
    for (uint32_t n = 0; n + 1 < nodes; n++)
    {
        links.push_back(network.Link(line.Get(n), line.Get(n + 1)));
    }
    OlsrHelper olsr;
    InternetStackHelper internet;
    internet.SetRoutingHelper(olsr);
    for (uint32_t n = outside ? 1 : 0; n < nodes; n++)
    {
        internet.Install(line.Get(n));
    }
    Ipv4AddressHelper addresses("10.9.0.0", "255.255.255.0");
    for (const auto& link : links)
    {
        addresses.Assign(link);
        addresses.NewNetwork();
    }
    network.Start(Seconds(0.5));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
