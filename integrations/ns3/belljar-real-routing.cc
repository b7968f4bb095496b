#include "belljar-real-routing.h"

#include <ns3/olsr-module.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace belljar
{

using namespace ns3;

namespace
{

std::string
Text(Ipv4Address address)
{
    std::ostringstream out;
    out << address;
    return out.str();
}

// Runs a program, whose failure ends the script.
void
Run(const std::string& command)
{
    NS_ABORT_MSG_IF(std::system((command + " 2>&1").c_str()) != 0, "this failed (root is needed): " << command);
}

// The calling thread is in a network namespace for as long as this lives.
class Inside
{
  public:
    explicit Inside(const std::string& name)
    {
        m_before = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
        int fd = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
        NS_ABORT_MSG_IF(m_before < 0 || fd < 0 || setns(fd, CLONE_NEWNET) < 0, "cannot enter the namespace " << name << ": " << std::strerror(errno));
        close(fd);
    }

    ~Inside()
    {
        NS_ABORT_MSG_IF(setns(m_before, CLONE_NEWNET) < 0, "cannot leave the namespace: " << std::strerror(errno));
        close(m_before);
    }

  private:
    int m_before;
};

// The kernel fills in checksums before a packet leaves. It leaves them to the hardware otherwise, of which a veth has none, and
// ns-3 takes such packets for damaged.
void
FillChecksums(const std::string& name, const std::string& interface)
{
    Inside inside(name);
    ethtool_value value{ETHTOOL_STXCSUM, 0};
    ifreq request{};
    std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    NS_ABORT_MSG_IF(ioctl(fd, SIOCETHTOOL, &request) < 0, "no checksums on " << interface << ": " << std::strerror(errno));
    close(fd);
}

// A filter as `tcpdump -ddd` prints it.
std::vector<sock_filter>
Compile(const std::string& expression)
{
    FILE* pipe = popen(("tcpdump -ddd -y EN10MB '" + expression + "'").c_str(), "r");
    NS_ABORT_MSG_IF(!pipe, "tcpdump does not start");
    unsigned count = 0;
    bool good = fscanf(pipe, "%u", &count) == 1;
    std::vector<sock_filter> program(count);
    for (auto& instruction : program)
    {
        unsigned code;
        unsigned jt;
        unsigned jf;
        unsigned k;
        good = good && fscanf(pipe, "%u %u %u %u", &code, &jt, &jf, &k) == 4;
        instruction = {static_cast<uint16_t>(code), static_cast<uint8_t>(jt), static_cast<uint8_t>(jf), k};
    }
    NS_ABORT_MSG_IF(pclose(pipe) != 0 || !good, "tcpdump does not understand the filter '" << expression << "'");
    return program;
}

} // namespace

RealNetwork::RealNetwork(const std::string& updater)
    : m_updater(updater)
{
}

RealNetwork::~RealNetwork()
{
    for (auto& [id, member] : m_members)
    {
        // The updater takes the routes back.
        if (member.updater >= 0)
        {
            close(member.updater);
        }
    }
    for (const auto& [name, interface] : m_links)
    {
        std::system(("ip -n " + name + " link delete " + interface).c_str());
    }
    for (const auto& name : m_made)
    {
        std::system(("ip netns delete " + name).c_str());
    }
}

void
RealNetwork::SetFilter(const std::string& expression)
{
    m_filter = expression;
}

void
RealNetwork::LeaveOut(Ptr<Node> node)
{
    m_out.insert(node->GetId());
}

std::string
RealNetwork::Namespace(Ptr<Node> node) const
{
    std::string name = Names::FindName(node);
    return name.empty() ? "n" + std::to_string(node->GetId()) : name;
}

RealNetwork::Member&
RealNetwork::Join(Ptr<Node> node)
{
    Member& member = m_members[node->GetId()];
    if (!member.node)
    {
        member.node = node;
        member.name = Namespace(node);
        if (access(("/run/netns/" + member.name).c_str(), F_OK) != 0)
        {
            Run("ip netns add " + member.name);
            m_made.push_back(member.name);
        }
        Run("ip -n " + member.name + " link set dev lo up");
        Run("ip netns exec " + member.name + " sysctl -qw net.ipv4.ip_forward=1");
    }
    return member;
}

NetDeviceContainer
RealNetwork::Link(Ptr<Node> a, Ptr<Node> b)
{
    NetDeviceContainer devices;
    Member& left = Join(a);
    Member& right = Join(b);
    std::string first = "eth" + std::to_string(left.interfaces.size() + left.left_out);
    std::string second = "eth" + std::to_string(right.interfaces.size() + right.left_out);
    Run("ip link add " + first + " netns " + left.name + " type veth peer name " + second + " netns " + right.name);
    m_links.emplace_back(left.name, first);
    Run("ip -n " + left.name + " link set dev " + first + " up");
    Run("ip -n " + right.name + " link set dev " + second + " up");
    for (const auto& [member, name] : {std::pair<Member&, std::string>(left, first), std::pair<Member&, std::string>(right, second)})
    {
        FillChecksums(member.name, name);
        if (m_out.count(member.node->GetId()))
        {
            member.left_out++;
        }
        else
        {
            devices.Add(Attach(member, name));
        }
    }
    return devices;
}

// A device of ns-3 that hears and says control packets on an interface of the kernel, whose hardware address it has.
Ptr<FdNetDevice>
RealNetwork::Attach(Member& member, const std::string& interface)
{
    Inside inside(member.name);
    uint32_t index = if_nametoindex(interface.c_str());
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    if (!m_filter.empty())
    {
        std::vector<sock_filter> program = Compile(m_filter);
        sock_fprog attached{static_cast<unsigned short>(program.size()), program.data()};
        NS_ABORT_MSG_IF(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached) < 0, "the kernel refuses the filter");
    }
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(index);
    NS_ABORT_MSG_IF(fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) < 0,
                    "no packet socket on " << interface << " of " << member.name << ": " << std::strerror(errno));
    sockaddr_ll own{};
    socklen_t len = sizeof own;
    getsockname(fd, reinterpret_cast<sockaddr*>(&own), &len);
    Mac48Address mac;
    mac.CopyFrom(own.sll_addr);
    Ptr<FdNetDevice> device = CreateObject<FdNetDevice>();
    device->SetAddress(mac);
    member.node->AddDevice(device);
    device->SetFileDescriptor(fd);
    member.interfaces[device->GetIfIndex()] = {index, interface};
    return device;
}

void
RealNetwork::Start(Time first, Time interval)
{
    for (auto& [id, member] : m_members)
    {
        if (m_out.count(id))
        {
            continue;
        }
        Ptr<Ipv4> ipv4 = member.node->GetObject<Ipv4>();
        for (const auto& [device, kernel] : member.interfaces)
        {
            int32_t number = ipv4->GetInterfaceForDevice(member.node->GetDevice(device));
            for (uint32_t n = 0; number >= 0 && n < ipv4->GetNAddresses(number); n++)
            {
                Ipv4InterfaceAddress address = ipv4->GetAddress(number, n);
                Run("ip -n " + member.name + " address replace " + Text(address.GetLocal()) + "/" +
                    std::to_string(address.GetMask().GetPrefixLength()) + " dev " + kernel.second);
            }
        }
        member.updater = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        std::strncpy(to.sun_path, m_updater.c_str(), sizeof to.sun_path - 1);
        NS_ABORT_MSG_IF(connect(member.updater, reinterpret_cast<sockaddr*>(&to), sizeof to) < 0,
                        "no updater answers at " << m_updater << ": start belljar-routed updater --socket " << m_updater << " --namespace "
                                                 << member.name << " ...");
        Ask(member, "{\"namespace\":\"" + member.name + "\"}");
    }
    Simulator::Schedule(first, &RealNetwork::HandOver, this, interval);
}

void
RealNetwork::HandOver(Time interval)
{
    for (auto& [id, member] : m_members)
    {
        if (m_out.count(id))
        {
            continue;
        }
        std::set<Route> now = Routes(member);
        if (now == member.routes)
        {
            continue;
        }
        std::string list;
        for (const auto& [destination, next, index] : now)
        {
            list += (list.empty() ? "" : ",") + std::string("{\"destination\":\"") + Text(destination) + "\",\"bits\":32,\"gateway\":" +
                    (next == Ipv4Address::GetAny() ? "null" : "\"" + Text(next) + "\"") + ",\"interface\":" + std::to_string(index) +
                    ",\"metric\":20,\"source\":null}";
        }
        Ask(member, "{\"replace_all\":[" + list + "]}");
        member.routes = now;
    }
    Simulator::Schedule(interval, &RealNetwork::HandOver, this, interval);
}

std::set<RealNetwork::Route>
RealNetwork::Routes(const Member& member) const
{
    Ptr<Ipv4> ipv4 = member.node->GetObject<Ipv4>();
    auto route = [&](Ipv4Address destination, Ipv4Address next, Ptr<NetDevice> device) {
        return Route{destination, next == destination ? Ipv4Address::GetAny() : next, member.interfaces.at(device->GetIfIndex()).first};
    };
    std::set<Route> out;
    if (Ptr<olsr::RoutingProtocol> olsr = Ipv4RoutingHelper::GetRouting<olsr::RoutingProtocol>(ipv4->GetRoutingProtocol()))
    {
        for (const auto& entry : olsr->GetRoutingTableEntries())
        {
            out.insert(route(entry.destAddr, entry.nextAddr, ipv4->GetNetDevice(entry.interface)));
        }
        return out;
    }
    for (const auto& [id, other] : m_members)
    {
        Ptr<Ipv4> theirs = other.node->GetObject<Ipv4>();
        for (uint32_t number = 1; theirs && other.node != member.node && number < theirs->GetNInterfaces(); number++)
        {
            Ipv4Header header;
            header.SetDestination(theirs->GetAddress(number, 0).GetLocal());
            Socket::SocketErrno error;
            Ptr<Ipv4Route> found = ipv4->GetRoutingProtocol()->RouteOutput(nullptr, header, nullptr, error);
            Ptr<NetDevice> device = found ? found->GetOutputDevice() : nullptr;
            if (device && member.interfaces.count(device->GetIfIndex()))
            {
                Ipv4Address next = found->GetGateway();
                out.insert(route(header.GetDestination(), next == Ipv4Address::GetAny() ? header.GetDestination() : next, device));
            }
        }
    }
    return out;
}

// Sends a request to the updater and waits for its answer.
void
RealNetwork::Ask(Member& member, const std::string& request) const
{
    std::string line = request + "\n";
    NS_ABORT_MSG_IF(send(member.updater, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()), "the updater has gone");
    std::string answer;
    char byte = 0;
    while (byte != '\n')
    {
        NS_ABORT_MSG_IF(recv(member.updater, &byte, 1, 0) != 1, "the updater has gone");
        answer += byte;
    }
    if (answer.find("\"error\"") != std::string::npos)
    {
        NS_ABORT_MSG_IF(request.find("namespace") != std::string::npos, "the updater refuses: " << answer);
        std::cerr << member.name << ": " << answer;
    }
}

} // namespace belljar
