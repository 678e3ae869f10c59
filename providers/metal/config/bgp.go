package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// BGPMode says which replicas announce, and what a router keeps when one of them goes.
type BGPMode string

const (
	// ActiveActive has every replica announce, each over sessions of its own. A router keeps a destination for as long as one of
	// them announces it, so nothing has to be remembered of one that is gone.
	ActiveActive BGPMode = "ActiveActive"
	// GracefulRestart has the leader alone announce, and routers keep what it said for RestartTime while it is away (RFC 4724).
	GracefulRestart BGPMode = "GracefulRestart"
)

// AddressFamily is an address family that a session carries.
type AddressFamily string

const (
	// IPv4 is unicast IPv4.
	IPv4 AddressFamily = "IPv4"
	// IPv6 is unicast IPv6.
	IPv6 AddressFamily = "IPv6"
)

// BGP is the speaker: it announces to routers which nodes lead to pods and to load balancers. It learns nothing from them.
// A running process does not take over another asn, routerID, listenPort, mode or restartTime: that would end all sessions at once.
type BGP struct {
	// ASN is the autonomous system of the speaker, 1 to 4294967295. A peer with the same one is internal (iBGP).
	ASN uint32 `json:"asn"`
	// RouterID is the BGP identifier, an IPv4 address that no other speaker or router has. Empty, as several replicas need it, derives it
	// from the address from which the first peer is reached.
	RouterID string `json:"routerID,omitempty"`
	// ListenPort is the TCP port on which peers may connect to the speaker, or -1 for none. Default: -1, the speaker dials.
	ListenPort int32 `json:"listenPort,omitempty"`
	// Mode says which replicas announce. Default: ActiveActive.
	Mode BGPMode `json:"mode,omitempty"`
	// RestartTime is how long routers keep the routes of a leader that is away, in whole seconds, 1s to 4095s. Default: 120s. It
	// goes with mode GracefulRestart only.
	RestartTime metav1.Duration `json:"restartTime,omitzero"`
	// BGPAttributes go with whatever is announced.
	BGPAttributes `json:",inline"`
	// CommunityAliases are names for communities: wherever a community is listed, a name stands for its value.
	CommunityAliases map[string]string `json:"communityAliases,omitempty"`
	// Pools say what goes with the addresses of single pools instead.
	Pools []BGPPool `json:"pools,omitempty"`
	// Advertisements say which addresses of load balancers go to which peers. Without any, all go to all.
	Advertisements []BGPAdvertisement `json:"advertisements,omitempty"`
	// NextHopSubnets say which InternalIP of a node is the next hop: the first that is in one of these subnets. A node that has none there
	// is no next hop. A family without a subnet here is not affected. Default: the first InternalIP of the family.
	NextHopSubnets []string `json:"nextHopSubnets,omitempty"`
	// Peers are the routers. Two of them may have one address if both have nodeSelectors, and different ones: a replica has a session with
	// the first that selects its node.
	Peers []BGPPeer `json:"peers"`
}

// BGPAttributes are path attributes that a router's policy decides on.
type BGPAttributes struct {
	// Communities are standard ones (RFC 1997) as "65000:100", large ones (RFC 8092) as "65000:1:2", or no-export, no-advertise,
	// no-export-subconfed, no-peer, graceful-shutdown or blackhole.
	Communities []string `json:"communities,omitempty"`
	// LocalPreference is what internal peers compare first; the higher wins. External peers never see it. Default: 100.
	LocalPreference *uint32 `json:"localPreference,omitempty"`
}

// BGPPool says what goes with the addresses of one pool. What it sets stands in the place of what the section sets.
type BGPPool struct {
	// Name is the name of the pool.
	Name string `json:"name"`
	// BGPAttributes go with addresses of the pool.
	BGPAttributes `json:",inline"`
}

// BGPPeer is one router. One session carries all its families.
type BGPPeer struct {
	// Name names the router in status, logs and metrics. Default: its address.
	Name string `json:"name,omitempty"`
	// Address is where the router listens, IPv4 or IPv6, without a zone. It is required unless DefaultGateway or Interface is there.
	Address string `json:"address,omitempty"`
	// DefaultGateway has each replica take the gateway of its machine's default route as the router: IPv4 or IPv6. A replica without one, or
	// with a link-local one, has the problem NoGateway. One peer of each family may have it. It does not go with Address.
	DefaultGateway AddressFamily `json:"defaultGateway,omitempty"`
	// Interface has each replica find the router at the other end of this link by its router advertisements. The replica announces its own
	// node only, at its link-local address, for IPv4 too (RFC 8950). It takes NET_RAW, which the value provider.metal.l2 of the chart gives.
	// It does not go with Address, DefaultGateway, SourceAddress or SourceSubnet.
	Interface string `json:"interface,omitempty"`
	// ASN is the autonomous system of the router. It is required unless DynamicASN is there.
	ASN uint32 `json:"asn,omitempty"`
	// LocalASN is the autonomous system that the speaker has for this router. A router in the same one is internal. Default: asn
	// of the section.
	LocalASN uint32 `json:"localASN,omitempty"`
	// DynamicASN stands in the place of ASN: Internal for a router in the speaker's own autonomous system, External for one in any other,
	// which it names itself.
	DynamicASN DynamicASN `json:"dynamicASN,omitempty"`
	// Port is its TCP port. Default: 179.
	Port int32 `json:"port,omitempty"`
	// PasswordFile is a file with the password of TCP MD5 signatures (RFC 2385), at most 80 bytes; a newline at its end does not count.
	// Another password resets the session. Empty means no signatures.
	PasswordFile string `json:"passwordFile,omitempty"`
	// HoldTime is after what silence both sides give the session up, in whole seconds, at least 3s. Until then a router uses the routes of a
	// dead replica. A change holds from the next session on. Default: 9s.
	HoldTime metav1.Duration `json:"holdTime,omitzero"`
	// KeepaliveTime is how often the speaker says that it is alive, in whole seconds, less than HoldTime. Default: a third of it.
	KeepaliveTime metav1.Duration `json:"keepaliveTime,omitzero"`
	// ConnectRetry is how long the speaker waits between two attempts to connect, in whole seconds, at least 2s. Default: 5s.
	ConnectRetry metav1.Duration `json:"connectRetry,omitzero"`
	// EBGPMultihop is the TTL of packets to an external router on another network, 2 to 255. Internal routers may be anywhere.
	EBGPMultihop int32 `json:"ebgpMultihop,omitempty"`
	// TTLSecurityHops has both sides drop packets of the session from further away than so many hops, 1 to 254; a router on the same network
	// is 1 away (RFC 5082). Configure the router for it as well. It does not go with EBGPMultihop.
	TTLSecurityHops int32 `json:"ttlSecurityHops,omitempty"`
	// SourceAddress is the speaker's own address of the session, of the same family as Address. With several replicas it has to be empty.
	// Empty leaves it to the kernel.
	SourceAddress string `json:"sourceAddress,omitempty"`
	// SourceSubnet has each replica take its machine's first address in this subnet as the speaker's own address of the session. A replica
	// without one has the problem NoSourceAddress. It does not go with SourceAddress.
	SourceSubnet string `json:"sourceSubnet,omitempty"`
	// NodeSelectors select the replicas that have a session with the router, by the labels of their nodes; one that matches is enough. It is
	// for routers of a rack, and goes with mode ActiveActive only. A replica that does not find its node has the problem NodeNotFound.
	// Default: all replicas.
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`
	// NextHopSubnets stand in the place of those of the section, for this router.
	NextHopSubnets []string `json:"nextHopSubnets,omitempty"`
	// HashesBySource says that the router chooses among next hops by the source address alone. Then it gets all next hops of a Service with
	// sessionAffinity ClientIP, and else one. Default: false.
	HashesBySource bool `json:"hashesBySource,omitempty"`
	// Families are what the session carries. Default: IPv4 and IPv6.
	Families []AddressFamily `json:"families,omitempty"`
	// BFD has the session given up when the router is silent for less than a second (RFC 5881, single hop). Nil means no BFD. It
	// goes with mode ActiveActive only.
	BFD *BFD `json:"bfd,omitempty"`
	// Communities go to this router besides those of the section or of the pool.
	// LocalPreference stands in the place of both.
	BGPAttributes `json:",inline"`
}

// BFD is how a router's silence is noticed (RFC 5880).
type BFD struct {
	// TransmitInterval is how often the speaker sends, in whole microseconds, at least 50ms, and no shorter than the router's receive
	// interval. Default: 300ms.
	TransmitInterval metav1.Duration `json:"transmitInterval,omitzero"`
	// ReceiveInterval is how often the speaker can be sent to, in whole microseconds, at least 50ms. A router that sends less often, or has
	// another multiplier, is waited for by its own. Default: 300ms.
	ReceiveInterval metav1.Duration `json:"receiveInterval,omitzero"`
	// Multiplier is how many packets of the speaker have to be lost until the router gives the session up, 2 to 255. Default: 3.
	Multiplier int32 `json:"multiplier,omitempty"`
}

const (
	defaultRestartTime  = 120 * time.Second
	defaultHoldTime     = 9 * time.Second
	defaultConnectRetry = 5 * time.Second
	defaultBFDInterval  = 300 * time.Millisecond
	defaultMultiplier   = 3
	bgpPort             = 179
	// maxRestartTime is what twelve bits hold (RFC 4724 section 3).
	maxRestartTime = 4095 * time.Second
	// longestPassword is how many bytes of a password the kernel takes (TCP_MD5SIG_MAXKEYLEN).
	longestPassword = 80
	// longestTime is what the hold time's sixteen bits hold (RFC 4271 section 4.2).
	longestTime = 65535 * time.Second
)

func (b *BGP) setDefaults() {
	b.ListenPort = cmp.Or(b.ListenPort, -1)
	b.Mode = cmp.Or(b.Mode, ActiveActive)
	if b.Mode == GracefulRestart {
		setDuration(&b.RestartTime, defaultRestartTime)
	}
	for i := range b.Peers {
		b.Peers[i].setDefaults()
		if b.Peers[i].DynamicASN == InternalASN {
			b.Peers[i].ASN = cmp.Or(b.Peers[i].ASN, b.OwnASN(&b.Peers[i]))
		}
	}
	for i := range b.Advertisements {
		b.Advertisements[i].Name = cmp.Or(b.Advertisements[i].Name, strconv.Itoa(i))
	}
	b.resolveAliases()
}

func (p *BGPPeer) setDefaults() {
	p.Name = cmp.Or(p.Name, p.Address)
	if p.Name == "" && p.DefaultGateway != "" {
		p.Name = "gateway-" + strings.ToLower(string(p.DefaultGateway))
	}
	p.Name = cmp.Or(p.Name, p.Interface)
	p.Port = cmp.Or(p.Port, bgpPort)
	setDuration(&p.HoldTime, defaultHoldTime)
	setDuration(&p.KeepaliveTime, max(time.Second, (p.HoldTime.Duration/3).Truncate(time.Second)))
	setDuration(&p.ConnectRetry, defaultConnectRetry)
	if len(p.Families) == 0 {
		p.Families = []AddressFamily{IPv4, IPv6}
	}
	if p.BFD != nil {
		setDuration(&p.BFD.TransmitInterval, defaultBFDInterval)
		setDuration(&p.BFD.ReceiveInterval, defaultBFDInterval)
		p.BFD.Multiplier = cmp.Or(p.BFD.Multiplier, defaultMultiplier)
	}
}

func setDuration(duration *metav1.Duration, value time.Duration) {
	duration.Duration = cmp.Or(duration.Duration, value)
}

// OwnASN returns the autonomous system that the speaker has for a router.
func (b *BGP) OwnASN(peer *BGPPeer) uint32 { return cmp.Or(peer.LocalASN, b.ASN) }

// RouterAddr returns the BGP identifier, or an address that is not valid when it is to be derived.
func (b *BGP) RouterAddr() netip.Addr {
	addr, _ := netip.ParseAddr(b.RouterID)
	return addr
}

// Password returns the password in the content of a PasswordFile.
func Password(content []byte) (string, error) {
	password := bytes.TrimRight(content, "\r\n")
	switch {
	case len(password) == 0:
		return "", errors.New("the password is empty")
	case len(password) > longestPassword:
		return "", fmt.Errorf("the password has %d bytes, and at most %d are possible", len(password), longestPassword)
	}
	return string(password), nil
}

// Attributes returns what goes with the addresses of a pool, or with pod CIDRs when the pool's name is empty.
func (b *BGP) Attributes(pool string) BGPAttributes {
	merged := b.BGPAttributes
	for _, override := range b.Pools {
		if override.Name != pool {
			continue
		}
		if override.Communities != nil {
			merged.Communities = override.Communities
		}
		merged.LocalPreference = cmp.Or(override.LocalPreference, merged.LocalPreference)
	}
	if merged.LocalPreference == nil {
		merged.LocalPreference = ptr.To(uint32(100))
	}
	return merged
}

// Link stands for the address of a router at the other end of an interface as long as it is not known: unspecified, with the interface as its
// zone.
func Link(name string) netip.Addr { return netip.IPv6Unspecified().WithZone(name) }

// place tells routers apart by where they are.
func (p *BGPPeer) place() netip.Addr {
	if p.Interface != "" {
		return Link(p.Interface)
	}
	return p.Addr()
}

// Addr returns the router's address.
func (p *BGPPeer) Addr() netip.Addr {
	addr, _ := netip.ParseAddr(p.Address)
	return addr
}

// SourceAddr returns the speaker's address of the session, or one that is not valid when the kernel is to choose.
func (p *BGPPeer) SourceAddr() netip.Addr {
	addr, _ := netip.ParseAddr(p.SourceAddress)
	return addr
}

// validatePoolNames says which pools that the section names do not exist.
func (b *BGP) validatePoolNames(path *field.Path, pools []Pool) field.ErrorList {
	var errs field.ErrorList
	known := map[string]bool{}
	for _, pool := range pools {
		known[pool.Name] = true
	}
	for i, override := range b.Pools {
		if !known[override.Name] {
			errs = append(errs, field.NotFound(path.Child("pools").Index(i).Child("name"), override.Name))
		}
	}
	return errs
}

// validate says what is wrong with a section that has its defaults.
func (b *BGP) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if b.ASN == 0 {
		errs = append(errs, field.Required(path.Child("asn"), "the autonomous system of the speaker, for example 64512"))
	}
	if addr := b.RouterAddr(); b.RouterID != "" && (!addr.Is4() || addr.IsUnspecified()) {
		errs = append(errs, field.Invalid(path.Child("routerID"), b.RouterID, "must be an IPv4 address other than 0.0.0.0"))
	}
	if b.ListenPort != -1 && (b.ListenPort < 1 || b.ListenPort > 65535) {
		errs = append(errs, field.Invalid(path.Child("listenPort"), b.ListenPort, "must be 1 to 65535, or -1 for none"))
	}
	errs = append(errs, b.validateMode(path)...)
	errs = append(errs, b.BGPAttributes.validate(path)...)
	errs = append(errs, b.validateAliases(path.Child("communityAliases"))...)
	errs = append(errs, validateSubnets(path.Child("nextHopSubnets"), b.NextHopSubnets)...)
	pools := map[string]bool{}
	for i, pool := range b.Pools {
		at := path.Child("pools").Index(i)
		if pool.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), "the name of a pool"))
		} else if pools[pool.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), pool.Name))
		}
		pools[pool.Name] = true
		errs = append(errs, pool.BGPAttributes.validate(at)...)
	}
	return append(errs, b.validatePeers(path.Child("peers"))...)
}

func (b *BGP) validateMode(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch b.Mode {
	case ActiveActive:
		if b.RestartTime.Duration != 0 {
			errs = append(errs, field.Invalid(path.Child("restartTime"), b.RestartTime.Duration.String(),
				"goes with mode GracefulRestart only: what a router keeps of a speaker that is gone hides what the others withdraw"))
		}
	case GracefulRestart:
		errs = append(errs, validateSeconds(path.Child("restartTime"), b.RestartTime, time.Second, maxRestartTime)...)
	default:
		errs = append(errs, field.NotSupported(path.Child("mode"), b.Mode, []BGPMode{ActiveActive, GracefulRestart}))
	}
	return errs
}

func (b *BGP) validatePeers(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(b.Peers) == 0 {
		errs = append(errs, field.Required(path, "at least one router"))
	}
	names := map[string]bool{}
	for i := range b.Peers {
		peer, at := &b.Peers[i], path.Index(i)
		if slices.ContainsFunc(b.Peers[:i], peer.excludes) {
			wrong := field.Duplicate(at.Child("address"), peer.Address)
			if peer.Interface != "" {
				wrong = field.Duplicate(at.Child("interface"), peer.Interface)
			}
			wrong.Detail = "two routers with one address or interface both need nodeSelectors, and different ones"
			errs = append(errs, wrong)
		}
		if names[peer.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), peer.Name))
		}
		names[peer.Name] = true
		if peer.DefaultGateway != "" && slices.ContainsFunc(b.Peers[:i], func(other BGPPeer) bool { return other.DefaultGateway == peer.DefaultGateway }) {
			errs = append(errs, field.Duplicate(at.Child("defaultGateway"), peer.DefaultGateway))
		}
		errs = append(errs, peer.validate(at, b.OwnASN(peer))...)
		if peer.BFD != nil && b.Mode == GracefulRestart {
			errs = append(errs, field.Invalid(at.Child("bfd"), "set",
				"does not go with mode GracefulRestart: BFD ends with the process, and a router would not wait for its return"))
		}
		if len(peer.NodeSelectors) > 0 && b.Mode == GracefulRestart {
			errs = append(errs, field.Invalid(at.Child("nodeSelectors"), "set",
				"does not go with mode GracefulRestart: one replica announces to all routers, and may run on any node"))
		}
	}
	return errs
}

// excludes reports whether a replica could not tell which of two routers with one address is its own.
func (p *BGPPeer) excludes(other BGPPeer) bool {
	if place := p.place(); !place.IsValid() || place != other.place() {
		return false
	}
	return len(p.NodeSelectors) == 0 || len(other.NodeSelectors) == 0 || reflect.DeepEqual(p.NodeSelectors, other.NodeSelectors)
}

func (p *BGPPeer) validate(path *field.Path, ownASN uint32) field.ErrorList {
	var errs field.ErrorList
	addr := p.Addr()
	if p.DefaultGateway != "" {
		errs = append(errs, p.validateGateway(path)...)
	} else if p.Interface != "" {
		errs = append(errs, p.validateInterface(path)...)
	} else if !addr.IsValid() || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr.Is4In6() {
		errs = append(errs, field.Invalid(path.Child("address"), p.Address,
			"must be an IPv4 or IPv6 address of a router, without a zone"))
	}
	errs = append(errs, p.validateASN(path, ownASN)...)
	errs = append(errs, p.validateTTL(path)...)
	if p.Port < 1 || p.Port > 65535 {
		errs = append(errs, field.Invalid(path.Child("port"), p.Port, "must be 1 to 65535"))
	}
	errs = append(errs, p.validateSource(path)...)
	errs = append(errs, validateSelectors(path.Child("nodeSelectors"), p.NodeSelectors)...)
	errs = append(errs, validateSubnets(path.Child("nextHopSubnets"), p.NextHopSubnets)...)
	errs = append(errs, p.validateTimers(path)...)
	errs = append(errs, p.validateMultihop(path, ownASN)...)
	seen := map[AddressFamily]bool{}
	for i, family := range p.Families {
		at := path.Child("families").Index(i)
		if family != IPv4 && family != IPv6 {
			errs = append(errs, field.NotSupported(at, family, []AddressFamily{IPv4, IPv6}))
		} else if seen[family] {
			errs = append(errs, field.Duplicate(at, family))
		}
		seen[family] = true
	}
	return append(errs, p.BGPAttributes.validate(path)...)
}

func (p *BGPPeer) validateSource(path *field.Path) field.ErrorList {
	if p.Interface != "" {
		return nil // it says itself that neither is there
	}
	var errs field.ErrorList
	is4 := p.Addr().Is4() || p.DefaultGateway == IPv4
	if source := p.SourceAddr(); p.SourceAddress != "" && (!source.IsValid() || source.Is4() != is4) {
		errs = append(errs, field.Invalid(path.Child("sourceAddress"), p.SourceAddress,
			"must be an address of the same family as the router's"))
	}
	if p.SourceSubnet == "" {
		return errs
	}
	subnet, err := parseSubnet(p.SourceSubnet)
	switch at := path.Child("sourceSubnet"); {
	case err != nil:
		errs = append(errs, field.Invalid(at, p.SourceSubnet, err.Error()))
	case subnet.Addr().Is4() != is4:
		errs = append(errs, field.Invalid(at, p.SourceSubnet, "must be of the same family as the router's address"))
	case p.SourceAddress != "":
		errs = append(errs, field.Invalid(at, p.SourceSubnet, "does not go with sourceAddress"))
	}
	return errs
}

func (p *BGPPeer) validateTimers(path *field.Path) field.ErrorList {
	errs := validateSeconds(path.Child("holdTime"), p.HoldTime, 3*time.Second, longestTime)
	errs = append(errs, validateSeconds(path.Child("keepaliveTime"), p.KeepaliveTime, time.Second, longestTime)...)
	errs = append(errs, validateSeconds(path.Child("connectRetry"), p.ConnectRetry, 2*time.Second, longestTime)...)
	if p.KeepaliveTime.Duration >= p.HoldTime.Duration {
		errs = append(errs, field.Invalid(path.Child("keepaliveTime"), p.KeepaliveTime.Duration.String(),
			fmt.Sprintf("must be less than holdTime, which is %s", p.HoldTime.Duration)))
	}
	if p.BFD == nil {
		return errs
	}
	return append(errs, p.BFD.validate(path.Child("bfd"))...)
}

func (b *BFD) validate(path *field.Path) field.ErrorList {
	errs := validateInterval(path.Child("transmitInterval"), b.TransmitInterval.Duration)
	errs = append(errs, validateInterval(path.Child("receiveInterval"), b.ReceiveInterval.Duration)...)
	if b.Multiplier < 2 || b.Multiplier > 255 {
		errs = append(errs, field.Invalid(path.Child("multiplier"), b.Multiplier, "must be 2 to 255"))
	}
	return errs
}

func validateInterval(path *field.Path, interval time.Duration) field.ErrorList {
	if interval < 50*time.Millisecond || interval > time.Minute || interval%time.Microsecond != 0 {
		return field.ErrorList{field.Invalid(path, interval.String(), "must be 50ms to 1m, in whole microseconds")}
	}
	return nil
}

func (p *BGPPeer) validateMultihop(path *field.Path, ownASN uint32) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("ebgpMultihop")
	switch {
	case p.EBGPMultihop == 0:
	case p.EBGPMultihop < 2 || p.EBGPMultihop > 255:
		errs = append(errs, field.Invalid(at, p.EBGPMultihop, "must be 2 to 255, or absent for a router on the same network"))
	case p.ASN == ownASN:
		errs = append(errs, field.Invalid(at, p.EBGPMultihop, "is for external routers; this one is internal and may be anywhere"))
	case p.BFD != nil:
		errs = append(errs, field.Invalid(path.Child("bfd"), "set",
			"is of a single hop, and ebgpMultihop says that the router is further away"))
	}
	return errs
}

// validateSeconds says what is wrong with a duration that the wire has in seconds.
func validateSeconds(path *field.Path, duration metav1.Duration, least, most time.Duration) field.ErrorList {
	if duration.Duration < least || duration.Duration > most || duration.Duration%time.Second != 0 {
		return field.ErrorList{field.Invalid(path, duration.Duration.String(),
			fmt.Sprintf("must be %s to %s, in whole seconds", least, most))}
	}
	return nil
}
