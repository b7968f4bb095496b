#include "belljar-real-routing.h"

#include <ns3/aodv-module.h>
#include <ns3/olsr-module.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
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

// Reads packets from a TUN interface, in a thread of its own.
class TunReader : public FdReader
{
  private:
    Data
    DoRead() override
    {
        const size_t most = 65536;
        auto bytes = static_cast<uint8_t*>(std::malloc(most));
        ssize_t len = read(m_fd, bytes, most);
        if (len <= 0)
        {
            std::free(bytes);
            return Data(nullptr, len < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : 0);
        }
        return Data(bytes, len);
    }
};

} // namespace

RealNetwork::RealNetwork(const std::string& updater)
    : m_updater(updater)
{
}

RealNetwork::~RealNetwork()
{
    for (auto& [id, member] : m_members)
    {
        if (member.reader)
        {
            member.reader->Stop();
        }
        // The updater takes the routes back.
        for (int fd : {member.updater, member.tun, member.raw, member.watch, member.port})
        {
            if (fd >= 0)
            {
                close(fd);
            }
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
RealNetwork::SetReactive()
{
    m_reactive = true;
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
        if (m_reactive)
        {
            Catch(id, member);
        }
    }
    Simulator::Schedule(first, &RealNetwork::HandOver, this, interval);
}

// Packets of the kernel that find no other route come here from now on.
void
RealNetwork::Catch(uint32_t id, Member& member)
{
    Inside inside(member.name);
    ifreq request{};
    std::strncpy(request.ifr_name, "ns3", IFNAMSIZ - 1);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    member.tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    NS_ABORT_MSG_IF(member.tun < 0 || ioctl(member.tun, TUNSETIFF, &request) < 0,
                    "no TUN interface in " << member.name << ": " << std::strerror(errno));
    Ptr<Ipv4> ipv4 = member.node->GetObject<Ipv4>();
    Run("ip -n " + member.name + " link set dev ns3 up");
    Run("ip -n " + member.name + " route add default dev ns3 metric 9999 src " + Text(ipv4->GetAddress(1, 0).GetLocal()));
    member.raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    member.port = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(aodv::RoutingProtocol::AODV_PORT);
    member.watch = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_IP));
    // The head of each packet is enough.
    sock_filter head{BPF_RET | BPF_K, 0, 0, 20};
    sock_fprog program{1, &head};
    NS_ABORT_MSG_IF(member.raw < 0 || member.watch < 0 || bind(member.port, reinterpret_cast<sockaddr*>(&own), sizeof own) < 0 ||
                        setsockopt(member.watch, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0,
                    "no sockets in " << member.name << ": " << std::strerror(errno));
    member.reader = Create<TunReader>();
    member.reader->Start(member.tun, MakeCallback(&RealNetwork::Missed, this).Bind(id));
}

// A packet without a route has come, in the reader's thread. ns-3's packets are made in the simulator's own: they share free lists.
void
RealNetwork::Missed(uint32_t id, uint8_t* bytes, ssize_t len)
{
    if (len >= 20 && bytes[0] >> 4 == 4)
    {
        Simulator::ScheduleWithContext(id, Time(0), &RealNetwork::Look, this, id, std::vector<uint8_t>(bytes, bytes + len));
    }
    std::free(bytes);
}

// Has the protocol look for a route, if the packet is of this node. If it is another's, nobody has a route that should have one:
// the protocol tells those who sent it.
void
RealNetwork::Look(uint32_t id, std::vector<uint8_t> bytes)
{
    Ptr<Packet> packet = Create<Packet>(bytes.data(), bytes.size());
    Ipv4Header header;
    if (!packet->RemoveHeader(header))
    {
        return;
    }
    Ptr<Ipv4> ipv4 = m_members.at(id).node->GetObject<Ipv4>();
    Ptr<Ipv4RoutingProtocol> protocol = ipv4->GetRoutingProtocol();
    Ptr<NetDevice> from = ipv4->GetNetDevice(1);
    if (ipv4->GetInterfaceForAddress(header.GetSource()) >= 0)
    {
        Socket::SocketErrno error;
        Ptr<Ipv4Route> route = protocol->RouteOutput(packet, header, nullptr, error);
        if (!route)
        {
            return;
        }
        if (route->GetOutputDevice() != ipv4->GetNetDevice(0))
        {
            header.SetTtl(header.GetTtl() + 1);
            Release(id, route, packet, header);
            return;
        }
        // It has marked the packet, which comes back by the loopback interface and is held.
        from = ipv4->GetNetDevice(0);
    }
    using Protocol = Ipv4RoutingProtocol;
    protocol->RouteInput(packet, header, from, MakeCallback(&RealNetwork::Release, this).Bind(id), Protocol::MulticastForwardCallback(),
                         Protocol::LocalDeliverCallback(),
                         MakeCallback(+[](Ptr<const Packet>, const Ipv4Header&, Socket::SocketErrno) {}));
}

// There is a route for a packet: the kernel gets it, and the packet. Its TTL is one more than it was.
void
RealNetwork::Release(uint32_t id, Ptr<Ipv4Route> route, Ptr<const Packet> packet, const Ipv4Header& header)
{
    Member& member = m_members.at(id);
    HandOverOne(member);
    Ptr<Packet> whole = packet->Copy();
    Ipv4Header own = header;
    own.SetTtl(header.GetTtl() - 1);
    own.EnableChecksum();
    whole->AddHeader(own);
    std::vector<uint8_t> bytes(whole->GetSize());
    whole->CopyData(bytes.data(), bytes.size());
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(header.GetDestination().Get());
    // What the kernel refuses is lost, as on any network.
    (void)!sendto(member.raw, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
}

// Tells the protocol between which addresses the kernel has forwarded, which keeps their routes.
void
RealNetwork::Refresh(const Member& member) const
{
    Ptr<Ipv4> ipv4 = member.node->GetObject<Ipv4>();
    std::set<uint32_t> used;
    uint8_t head[20];
    while (recv(member.watch, head, sizeof head, 0) == sizeof head)
    {
        for (const uint8_t* at : {head + 12, head + 16})
        {
            used.insert(static_cast<uint32_t>(at[0]) << 24 | at[1] << 16 | at[2] << 8 | at[3]);
        }
    }
    for (uint32_t address : used)
    {
        Ipv4Header header;
        header.SetDestination(Ipv4Address(address));
        Socket::SocketErrno error;
        if (ipv4->GetInterfaceForAddress(header.GetDestination()) < 0)
        {
            // The packet goes nowhere: a route that is there lives longer.
            ipv4->GetRoutingProtocol()->RouteOutput(Create<Packet>(), header, nullptr, error);
        }
    }
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
        if (m_reactive)
        {
            Refresh(member);
        }
        HandOverOne(member);
    }
    Simulator::Schedule(interval, &RealNetwork::HandOver, this, interval);
}

void
RealNetwork::HandOverOne(Member& member)
{
    std::set<Route> now = Routes(member);
    if (now == member.routes)
    {
        return;
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
    if (Ptr<aodv::RoutingProtocol> aodv = Ipv4RoutingHelper::GetRouting<aodv::RoutingProtocol>(ipv4->GetRoutingProtocol()))
    {
        // Its table can be had as text alone: destination, gateway, own address, UP or not, lifetime, hops.
        std::stringstream text;
        aodv->PrintRoutingTable(Create<OutputStreamWrapper>(&text));
        for (std::string line; std::getline(text, line);)
        {
            std::istringstream words(line);
            std::string destination;
            std::string gateway;
            std::string own;
            std::string flag;
            if (!(words >> destination >> gateway >> own >> flag) || flag != "UP" || destination.find_first_not_of("0123456789.") != std::string::npos)
            {
                continue;
            }
            int32_t number = ipv4->GetInterfaceForAddress(Ipv4Address(own.c_str()));
            Ptr<NetDevice> device = number > 0 ? ipv4->GetNetDevice(number) : nullptr;
            Ipv4Address to(destination.c_str());
            if (device && member.interfaces.count(device->GetIfIndex()) && !to.IsSubnetDirectedBroadcast(ipv4->GetAddress(number, 0).GetMask()))
            {
                out.insert(route(to, Ipv4Address(gateway.c_str()), device));
            }
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
