package convert

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The types below have the fields of MetalLB's resources (metallb.io/v1beta1 and v1beta2) under MetalLB's names. The module of MetalLB
// itself is not imported: it requires all that its controller is made of.

// header is what every object has.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	// Status holds nothing that is configured.
	Status json.RawMessage `json:"status"`
}

// name is how notes name the object.
func (h *header) name() string {
	if h.Metadata.Namespace == "" {
		return h.Kind + " " + h.Metadata.Name
	}
	return h.Kind + " " + h.Metadata.Namespace + "/" + h.Metadata.Name
}

type ipAddressPool struct {
	header
	Spec struct {
		Addresses         []string `json:"addresses"`
		AutoAssign        *bool    `json:"autoAssign"`
		AvoidBuggyIPs     bool     `json:"avoidBuggyIPs"`
		ServiceAllocation *struct {
			Priority           int                    `json:"priority"`
			Namespaces         []string               `json:"namespaces"`
			NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors"`
			ServiceSelectors   []metav1.LabelSelector `json:"serviceSelectors"`
		} `json:"serviceAllocation"`
	} `json:"spec"`
}

type bgpPeer struct {
	header
	Spec struct {
		MyASN          uint32                 `json:"myASN"`
		PeerASN        uint32                 `json:"peerASN"`
		LocalASN       uint32                 `json:"localASN"`
		DynamicASN     string                 `json:"dynamicASN"`
		PeerAddress    string                 `json:"peerAddress"`
		Interface      string                 `json:"interface"`
		SourceAddress  string                 `json:"sourceAddress"`
		PeerPort       uint16                 `json:"peerPort"`
		HoldTime       *metav1.Duration       `json:"holdTime"`
		KeepaliveTime  *metav1.Duration       `json:"keepaliveTime"`
		ConnectTime    *metav1.Duration       `json:"connectTime"`
		RouterID       string                 `json:"routerID"`
		NodeSelectors  []metav1.LabelSelector `json:"nodeSelectors"`
		Password       string                 `json:"password"`
		PasswordSecret struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"passwordSecret"`
		BFDProfile             string `json:"bfdProfile"`
		EnableGracefulRestart  bool   `json:"enableGracefulRestart"`
		EBGPMultiHop           bool   `json:"ebgpMultiHop"`
		VRF                    string `json:"vrf"`
		DisableMP              bool   `json:"disableMP"`
		DualStackAddressFamily bool   `json:"dualStackAddressFamily"`
	} `json:"spec"`
}

type bgpAdvertisement struct {
	header
	Spec struct {
		AggregationLength      *int32                 `json:"aggregationLength"`
		AggregationLengthV6    *int32                 `json:"aggregationLengthV6"`
		LocalPref              uint32                 `json:"localPref"`
		ASPathPrepend          uint8                  `json:"asPathPrepend"`
		Communities            []string               `json:"communities"`
		IPAddressPools         []string               `json:"ipAddressPools"`
		IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors"`
		NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors"`
		Peers                  []string               `json:"peers"`
		ServiceSelectors       []metav1.LabelSelector `json:"serviceSelectors"`
	} `json:"spec"`
}

type l2Advertisement struct {
	header
	Spec struct {
		IPAddressPools         []string               `json:"ipAddressPools"`
		IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors"`
		NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors"`
		Interfaces             []string               `json:"interfaces"`
		ServiceSelectors       []metav1.LabelSelector `json:"serviceSelectors"`
		PreferredNodeSelectors []struct {
			Weight     int32                `json:"weight"`
			Preference metav1.LabelSelector `json:"preference"`
		} `json:"preferredNodeSelectors"`
	} `json:"spec"`
}

type bfdProfile struct {
	header
	Spec struct {
		ReceiveInterval  *uint32 `json:"receiveInterval"`
		TransmitInterval *uint32 `json:"transmitInterval"`
		DetectMultiplier *uint32 `json:"detectMultiplier"`
		EchoInterval     *uint32 `json:"echoInterval"`
		EchoMode         *bool   `json:"echoMode"`
		PassiveMode      *bool   `json:"passiveMode"`
		MinimumTTL       *uint32 `json:"minimumTtl"`
	} `json:"spec"`
}

type community struct {
	header
	Spec struct {
		Communities []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"communities"`
	} `json:"spec"`
}

// resources are the objects that say how MetalLB is configured, each kind by name.
type resources struct {
	pools            []ipAddressPool
	peers            []bgpPeer
	bgpAdverts       []bgpAdvertisement
	l2Adverts        []l2Advertisement
	bfd              []bfdProfile
	communities      []community
	secrets, skipped int
}

// group is the API group of MetalLB.
const group = "metallb.io/"

// read reads streams of YAML or JSON documents, of single objects and of lists. What it cannot decode is an error; what it does not
// know is noted.
func read(from []io.Reader, notes *notes) (*resources, error) {
	found := &resources{}
	var errs []error
	number := 0
	for _, stream := range from {
		data, err := io.ReadAll(stream)
		if err != nil {
			return nil, fmt.Errorf("reading after document %d: %w", number, err)
		}
		text, err := decoded(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("after document %d: %w", number, err))
		}
		for _, document := range documents(text) {
			number++
			object, err := yaml.YAMLToJSONStrict([]byte(document))
			if err != nil {
				errs = append(errs, fmt.Errorf("document %d: %w", number, err))
				continue
			}
			if string(object) != "null" {
				errs = append(errs, found.add(object, fmt.Sprintf("document %d", number), notes))
			}
		}
	}
	found.sort()
	return found, errors.Join(errs...)
}

// decoded returns a stream in UTF-8. PowerShell writes UTF-16 with a byte order mark, and some editors write one before UTF-8.
func decoded(data []byte) (string, error) {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return strings.TrimPrefix(string(data), "\ufeff"), nil
	}
	if len(data)%2 != 0 {
		return "", errors.New("a file in UTF-16 has an odd number of bytes")
	}
	var units []uint16
	for pair := range slices.Chunk(data[2:], 2) {
		units = append(units, order.Uint16(pair))
	}
	return string(utf16.Decode(units)), nil
}

// documents splits a stream at the markers of YAML (YAML 1.2.2, 9.1.2): "---" begins a document, whose text may follow in the same line, and
// "..." ends one. What is blank is none.
func documents(stream string) []string {
	var all []string
	var current strings.Builder
	next := func() {
		if strings.TrimSpace(current.String()) != "" {
			all = append(all, current.String())
		}
		current.Reset()
	}
	for line := range strings.Lines(stream) {
		rest, begins := strings.CutPrefix(line, "---")
		if !begins {
			var ends bool
			if rest, ends = strings.CutPrefix(line, "..."); !ends {
				current.WriteString(line)
				continue
			}
		}
		if rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
			current.WriteString(line) // a longer word
			continue
		}
		next()
		if begins {
			current.WriteString(strings.TrimLeft(rest, " \t"))
		}
	}
	next()
	return all
}

// add adds an object, or those of a list. Where says where it was read.
func (r *resources) add(object []byte, where string, notes *notes) error {
	var meta struct {
		header
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(object, &meta); err != nil {
		return fmt.Errorf("%s: not an object of Kubernetes: %w", where, err)
	}
	if strings.HasSuffix(meta.Kind, "List") && meta.Items != nil {
		var errs []error
		for i, item := range meta.Items {
			errs = append(errs, r.add(withType(item, meta.TypeMeta), fmt.Sprintf("%s, item %d", where, i), notes))
		}
		return errors.Join(errs...)
	}
	switch meta.APIVersion + " " + meta.Kind {
	case "metallb.io/v1beta1 IPAddressPool":
		return decode(object, &r.pools, where, notes)
	case "metallb.io/v1beta2 BGPPeer":
		return decode(object, &r.peers, where, notes)
	case "metallb.io/v1beta1 BGPAdvertisement":
		return decode(object, &r.bgpAdverts, where, notes)
	case "metallb.io/v1beta1 L2Advertisement":
		return decode(object, &r.l2Adverts, where, notes)
	case "metallb.io/v1beta1 BFDProfile":
		return decode(object, &r.bfd, where, notes)
	case "metallb.io/v1beta1 Community":
		return decode(object, &r.communities, where, notes)
	case "v1 ConfigMap":
		var data struct {
			Data map[string]string `json:"data"`
		}
		_ = json.Unmarshal(object, &data) // what has no such data is of none of the formats
		r.skip(&meta.header, where, mapFormat(meta.Metadata.Name, data.Data), notes)
	case "v1 Secret":
		r.secrets++
		notes.add(Action, meta.name(), "", "is not converted, and its content not shown; mount it where a passwordFile of the config is, if one is")
	default:
		r.skip(&meta.header, where, groupFormat(meta.APIVersion), notes)
	}
	return nil
}

// mapFormat names the load balancer that a ConfigMap configures, empty for none that is known.
func mapFormat(name string, data map[string]string) string {
	if config := data["config"]; strings.Contains(config, "address-pools:") || strings.Contains(config, "peer-asn:") {
		return "MetalLB before 0.13, whose resources took the place of the ConfigMap"
	}
	if name == "kubevip" {
		return "kube-vip's cloud provider"
	}
	return ""
}

// groupFormat names the load balancer whose resources are of an API group, empty for none that is known.
func groupFormat(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return map[string]string{
		"cilium.io": "Cilium", "network.kubesphere.io": "OpenELB", "purelb.io": "PureLB", "frrk8s.metallb.io": "frr-k8s", "crd.projectcalico.org": "Calico",
		"projectcalico.org": "Calico",
	}[group]
}

// skip notes an object that is not converted. Format names what it is of, empty for unknown.
func (r *resources) skip(of *header, where, format string, notes *notes) {
	r.skipped++
	name := of.name()
	switch {
	case of.Kind == "":
		notes.add(Lost, where, "kind", "is missing, so the object is not converted")
	case strings.HasPrefix(of.APIVersion, group) && slices.Contains([]string{"ServiceL2Status", "ServiceBGPStatus", "ConfigurationState"}, of.Kind):
		notes.add(Info, name, "", "reports a state and configures nothing")
	case strings.HasPrefix(of.APIVersion, group) && slices.Contains([]string{"AddressPool", "BGPPeer"}, of.Kind):
		notes.add(Lost, name, "apiVersion", "%s is not read; get the objects as ipaddresspools.v1beta1.metallb.io or bgppeers.v1beta2.metallb.io", of.APIVersion)
	case format != "":
		notes.add(Lost, name, "", "is of %s, and not read", format)
	default:
		notes.add(Lost, name, "", "%s %s is not read", of.APIVersion, of.Kind)
	}
}

// withType gives an item of a typed list, such as a BGPPeerList, the type that the list has said.
func withType(item []byte, list metav1.TypeMeta) []byte {
	var object map[string]any
	if err := json.Unmarshal(item, &object); err != nil || object["kind"] != nil || list.Kind == "List" {
		return item
	}
	object["kind"], object["apiVersion"] = strings.TrimSuffix(list.Kind, "List"), list.APIVersion
	typed, err := json.Marshal(object)
	if err != nil {
		return item
	}
	return typed
}

// decode appends an object to those of its kind. Fields that the kind does not have are noted.
func decode[T any](object []byte, to *[]T, where string, notes *notes) error {
	var into T
	var of header
	if err := json.Unmarshal(object, &of); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	unknown, err := strictjson.UnmarshalStrict(object, &into)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", where, of.name(), err)
	}
	for _, one := range unknown {
		var at strictjson.FieldError
		path := ""
		if errors.As(one, &at) {
			path = at.FieldPath()
		}
		notes.add(Lost, of.name(), path, "%s", one.Error())
	}
	*to = append(*to, into)
	return nil
}

// sort orders the objects by their names, as the API server lists them: of BFD profiles and communities the order does not matter.
func (r *resources) sort() {
	slices.SortStableFunc(r.pools, func(a, b ipAddressPool) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortStableFunc(r.peers, func(a, b bgpPeer) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortStableFunc(r.bgpAdverts, func(a, b bgpAdvertisement) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortStableFunc(r.l2Adverts, func(a, b l2Advertisement) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortStableFunc(r.communities, func(a, b community) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
}
