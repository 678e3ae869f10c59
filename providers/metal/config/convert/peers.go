package convert

import (
	"cmp"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	// secretsValue is the chart's value that names Secrets to mount.
	secretsValue = "provider.secrets"
	// secretsFolder is where the chart mounts them, each under its name.
	secretsFolder = "/etc/mooring/secrets"
)

// mostHops is the TTL of sessions over several hops in MetalLB.
const mostHops = 255

// note adds a note about the object at hand.
type note func(severity Severity, field, format string, values ...any)

// peer converts a peer; false if it has no counterpart, which is noted.
func (c *conversion) peer(from *bgpPeer) (config.BGPPeer, bool) {
	spec, note := &from.Spec, note(c.notes.of(from.name()))
	made := config.BGPPeer{Name: from.Metadata.Name, Address: spec.PeerAddress, Interface: spec.Interface, ASN: spec.PeerASN, Port: int32(spec.PeerPort)}
	switch spec.DynamicASN {
	case "internal":
		made.DynamicASN = config.InternalASN
	case "external":
		made.DynamicASN = config.ExternalASN
	}
	if !c.possible(from, note) {
		return made, false
	}
	if own := from.ownASN(); own != c.config.BGP.ASN {
		made.LocalASN = own
	}
	addr, _ := netip.ParseAddr(spec.PeerAddress)
	if spec.Interface != "" {
		note(Action, "spec.interface", "each replica announces its own node over this link: run a replica on each node that has it")
	} else if family := config.IPv4; !spec.DualStackAddressFamily {
		if !addr.Is4() {
			family = config.IPv6
		}
		made.Families = []config.AddressFamily{family}
	}
	made.PasswordFile = c.password(from, note)
	convertTimers(&made, from, note)
	switch internal := made.DynamicASN == config.InternalASN || made.ASN == from.ownASN(); {
	case spec.EBGPMultiHop && !internal:
		made.EBGPMultihop = mostHops
		note(Info, "spec.ebgpMultiHop", "if it is there only because the router wants packets with a TTL of 255, ttlSecurityHops: 1 in its place says so, and "+
			"has both sides drop what comes from further away")
	case spec.EBGPMultiHop:
		note(Info, "spec.ebgpMultiHop", "is not needed: an internal router may be anywhere")
	}
	if spec.BFDProfile != "" {
		made.BFD = c.bfd(from, &made, note)
	}
	if spec.SourceAddress != "" {
		note(Lost, "spec.sourceAddress", "every replica has addresses of its own; name their subnet in sourceSubnet if the kernel does not choose the right one")
	}
	if spec.RouterID != "" {
		note(Lost, "spec.routerID", "every replica needs one of its own, and derives it from its address")
	}
	if spec.EnableGracefulRestart {
		note(Lost, "spec.enableGracefulRestart", "with several replicas it is not needed: each announces, and a router keeps what one of them announces")
	}
	if spec.DisableMP {
		note(Info, "spec.disableMP", "is families here")
	}
	if len(spec.NodeSelectors) > 0 {
		note(Info, "spec.nodeSelectors", "the advertisements to this peer have these nodes as next hops; all replicas have a session with it, "+
			"unless nodeSelectors of the peer say by which nodes' replicas")
	}
	return made, true
}

// possible notes why a peer has no counterpart.
func (c *conversion) possible(from *bgpPeer, note note) bool {
	spec, possible := &from.Spec, true
	refuse := func(is bool, field, format string, values ...any) {
		if is {
			possible = false
			note(Lost, field, format+"; the peer is left out", values...)
		}
	}
	refuse(spec.Interface != "" && spec.PeerAddress != "", "spec.interface", "peerAddress is set too, and MetalLB accepts only one of them")
	refuse(spec.VRF != "", "spec.vrf", "a replica uses one routing table; run it in the VRF")
	refuse(!slices.Contains([]string{"", "internal", "external"}, spec.DynamicASN), "spec.dynamicASN", "%q is neither internal nor external", spec.DynamicASN)
	refuse(spec.DynamicASN != "" && spec.PeerASN != 0, "spec.dynamicASN", "peerASN is set too, and MetalLB accepts only one of them")
	refuse(spec.PeerASN == 0 && spec.DynamicASN == "", "spec.peerASN", "is missing, and there is no dynamicASN")
	addr, err := netip.ParseAddr(spec.PeerAddress)
	refuse(spec.Interface == "" && err != nil, "spec.peerAddress", "%q is no address", spec.PeerAddress)
	refuse((err == nil || spec.Interface != "") && slices.ContainsFunc(c.config.BGP.Peers, func(other config.BGPPeer) bool {
		selectors := c.nodesOf(other.Name)
		return other.Addr() == addr && other.Interface == spec.Interface &&
			(len(selectors) == 0 || len(spec.NodeSelectors) == 0 || reflect.DeepEqual(selectors, spec.NodeSelectors))
	}), "spec.peerAddress", "another BGPPeer has %s too, and the two have no nodeSelectors that differ", cmp.Or(spec.PeerAddress, spec.Interface))
	return possible
}

// nodesOf returns the nodeSelectors of the BGPPeer of a name.
func (c *conversion) nodesOf(name string) []metav1.LabelSelector {
	at := slices.IndexFunc(c.from.peers, func(peer bgpPeer) bool { return peer.Metadata.Name == name })
	if at < 0 {
		return nil
	}
	return c.from.peers[at].Spec.NodeSelectors
}

// selectReplicas has replicas choose by their nodes among peers with one address, as the nodes do in MetalLB.
func (c *conversion) selectReplicas() {
	peers := c.config.BGP.Peers
	for i := range peers {
		peer := &peers[i]
		if !slices.ContainsFunc(peers, func(other config.BGPPeer) bool {
			return other.Name != peer.Name && other.Addr() == peer.Addr() && other.Interface == peer.Interface
		}) {
			continue
		}
		peer.NodeSelectors = c.nodesOf(peer.Name)
		c.notes.add(Action, "BGPPeer "+peer.Name, "spec.nodeSelectors", "another BGPPeer has the address %s too; only replicas on these nodes have a session "+
			"with this one: run a replica there", cmp.Or(peer.Address, peer.Interface))
	}
}

// SecretFile stands for the file of a password that is in a Secret. It is the path at which the API server has the Secret.
func SecretFile(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/secrets/" + name
}

// password returns the file of the password of a peer, and notes what has to be mounted there.
func (c *conversion) password(from *bgpPeer, note note) string {
	switch secret := from.Spec.PasswordSecret; {
	case from.Spec.Password != "":
		if secret.Name != "" {
			note(Lost, "spec.passwordSecret", "password is set too, and MetalLB accepts only one of them")
		}
		file := path.Join(secretsFolder, "bgp-"+from.Metadata.Name, "password")
		note(Action, "spec.password", "is not shown; put it under the key password into a Secret bgp-%s in the manager's namespace, and name that under "+
			secretsValue+" of the chart, which mounts it as %s", from.Metadata.Name, file)
		return file
	case secret.Name != "" && c.fromAPI:
		if secret.Namespace != "" && secret.Namespace != from.Metadata.Namespace {
			note(Lost, "spec.passwordSecret.namespace", "the Secret is read from namespace %s, which is the BGPPeer's own, as MetalLB does it", from.Metadata.Namespace)
		}
		return SecretFile(from.Metadata.Namespace, secret.Name)
	case secret.Name != "":
		file := path.Join(secretsFolder, secret.Name, "password")
		note(Action, "spec.passwordSecret", "copy the Secret %s into the manager's namespace, and name it under "+secretsValue+
			" of the chart, which mounts it as %s", secret.Name, file)
		return file
	}
	return ""
}

// convertTimers converts the times of a session. A time out of our bounds is noted, and the default holds.
func convertTimers(made *config.BGPPeer, from *bgpPeer, note note) {
	hold, keepalive := from.Spec.HoldTime, from.Spec.KeepaliveTime
	if hold == nil && keepalive != nil { // as MetalLB has it
		hold = &metav1.Duration{Duration: 3 * keepalive.Duration}
	}
	seconds := func(of *metav1.Duration, least time.Duration, field string) metav1.Duration {
		if of == nil {
			return metav1.Duration{}
		}
		rounded := of.Duration.Truncate(time.Second)
		if rounded < least {
			note(Lost, field, "%s is less than %s; the default is used", of.Duration, least)
			return metav1.Duration{}
		}
		if rounded != of.Duration {
			note(Info, field, "%s is %s, in whole seconds", of.Duration, rounded)
		}
		return metav1.Duration{Duration: rounded}
	}
	made.HoldTime = seconds(hold, 3*time.Second, "spec.holdTime")
	made.KeepaliveTime = seconds(keepalive, time.Second, "spec.keepaliveTime")
	made.ConnectRetry = seconds(from.Spec.ConnectTime, 2*time.Second, "spec.connectTime")
	switch keepalive := made.KeepaliveTime.Duration; {
	case keepalive == 0:
	case made.HoldTime.Duration == 0:
		note(Lost, "spec.keepaliveTime", "%s is dropped with the hold time; the default is used", keepalive)
		made.KeepaliveTime = metav1.Duration{}
	case keepalive >= made.HoldTime.Duration:
		note(Lost, "spec.keepaliveTime", "%s is not less than the hold time; the default, a third of the hold time, is used", keepalive)
		made.KeepaliveTime = metav1.Duration{}
	}
	if hold == nil {
		note(Info, "spec.holdTime", "is not set; the default is 9s here")
	}
}

// bfd converts the BFD profile of a peer.
func (c *conversion) bfd(from *bgpPeer, made *config.BGPPeer, note note) *config.BFD {
	if made.EBGPMultihop > 0 {
		note(Lost, "spec.bfdProfile", "BFD is of a single hop here, and ebgpMultiHop says that the router is further away")
		return nil
	}
	at := slices.IndexFunc(c.from.bfd, func(profile bfdProfile) bool { return profile.Metadata.Name == from.Spec.BFDProfile })
	if at < 0 {
		note(Lost, "spec.bfdProfile", "there is no BFDProfile %q; BFD has its defaults", from.Spec.BFDProfile)
		return &config.BFD{}
	}
	profile := &c.from.bfd[at]
	return convertBFD(profile, c.notes.of(profile.name()+", for "+from.name()))
}

// convertBFD converts a BFD profile.
func convertBFD(from *bfdProfile, note note) *config.BFD {
	interval := func(milliseconds *uint32, field string) metav1.Duration {
		if milliseconds == nil {
			return metav1.Duration{}
		}
		set := time.Duration(*milliseconds) * time.Millisecond
		bounded := min(max(set, 50*time.Millisecond), time.Minute)
		if bounded != set {
			note(Lost, field, "is %s, and 50ms to 1m are possible; it is %s", set, bounded)
		}
		return metav1.Duration{Duration: bounded}
	}
	made := &config.BFD{
		ReceiveInterval:  interval(from.Spec.ReceiveInterval, "spec.receiveInterval"),
		TransmitInterval: interval(from.Spec.TransmitInterval, "spec.transmitInterval"),
	}
	if multiplier := from.Spec.DetectMultiplier; multiplier != nil {
		made.Multiplier = int32(min(max(*multiplier, 2), 255))
		if made.Multiplier != int32(*multiplier) {
			note(Lost, "spec.detectMultiplier", "is %d, and 2 to 255 are possible; it is %d", *multiplier, made.Multiplier)
		}
	}
	if from.Spec.EchoMode != nil && *from.Spec.EchoMode {
		note(Lost, "spec.echoMode", "there is no echo function")
	}
	if from.Spec.EchoInterval != nil {
		note(Lost, "spec.echoInterval", "there is no echo function")
	}
	if from.Spec.PassiveMode != nil && *from.Spec.PassiveMode {
		note(Lost, "spec.passiveMode", "the speaker always begins")
	}
	if from.Spec.MinimumTTL != nil {
		note(Lost, "spec.minimumTtl", "is for several hops, and BFD is of a single hop here")
	}
	return made
}
