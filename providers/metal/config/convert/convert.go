// Package convert turns the configuration of other load balancers for bare metal into a cloud config of the provider metal. What has
// no counterpart is listed, by the object and the field; nothing is left out in silence. It asks no cluster, and is the same for the same
// input.
package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Result is what became of a configuration.
type Result struct {
	// Config is a cloud config that the provider takes, unless notes say what of it is invalid.
	Config *config.CloudConfig
	// Notes say what the config leaves out, what a person has to do, and what is a little different; the gravest first.
	Notes []Note
	// LeftOut are the routers that are not in the config, as notes name them.
	LeftOut []string
}

// maxErrors is how many bytes all errors together may have.
const maxErrors = 64 << 10

// mostNamed is how many objects that are not converted an error names.
const mostNamed = 10

// MetalLB converts the resources of MetalLB in streams of YAML or JSON documents, of single objects or lists as kubectl shows them. The
// error names everything that cannot be decoded.
func MetalLB(from ...io.Reader) (Result, error) {
	c := newConversion()
	var err error
	if c.from, err = read(from, &c.notes); err != nil {
		return Result{}, message.Bound(err, maxErrors)
	}
	if len(c.from.pools)+len(c.from.peers)+len(c.from.bgpAdverts)+len(c.from.l2Adverts) == 0 {
		text := fmt.Sprintf("there is no IPAddressPool, BGPPeer, BGPAdvertisement or L2Advertisement of metallb.io among %d other objects",
			c.from.skipped+c.from.secrets+len(c.from.bfd)+len(c.from.communities))
		for _, note := range c.notes.sorted()[:min(len(c.notes.list), mostNamed)] {
			text += "\n" + note.String()
		}
		return Result{}, errors.New(text)
	}
	return c.convert()
}

// Objects converts resources of MetalLB in JSON, as the API server has them. There may be none. Who uses the config has to read what SecretFile
// stands for.
func Objects(objects ...[]byte) (Result, error) {
	c := newConversion()
	c.from, c.fromAPI = &resources{}, true
	var errs []error
	for _, object := range objects {
		errs = append(errs, c.from.add(object, "object", &c.notes))
	}
	if err := errors.Join(errs...); err != nil {
		return Result{}, message.Bound(err, maxErrors)
	}
	c.from.sort()
	return c.convert()
}

func newConversion() *conversion {
	return &conversion{config: &config.CloudConfig{TypeMeta: metav1.TypeMeta{APIVersion: config.APIVersion, Kind: config.CloudConfigKind}}}
}

// convert converts what was read.
func (c *conversion) convert() (Result, error) {
	c.convertPools()
	c.convertBGP()
	c.convertL2()
	if err := c.examine(); err != nil {
		return Result{}, err
	}
	return Result{Config: c.config, Notes: c.notes.sorted(), LeftOut: c.leftOut}, nil
}

// conversion is one conversion while it is made.
type conversion struct {
	from *resources
	// fromAPI says that Secrets can be read where the resources were.
	fromAPI bool
	config  *config.CloudConfig
	notes   notes
	// advertised are the objects that the advertisements of the config came from, in their order.
	advertised []string
	// leftOut are the peers that are not in the config.
	leftOut []string
}

// examine notes what the provider would refuse of the config. An aggregation that it refuses is taken out: without it the single
// addresses are announced, of which no router takes more than they are.
func (c *conversion) examine() error {
	wrong, err := c.errors()
	if err != nil {
		return err
	}
	taken := false
	for i := range c.advertised {
		prefix := fmt.Sprintf("bgp.advertisements[%d].aggregationLength", i)
		for _, one := range wrong {
			if rest, found := strings.CutPrefix(one.Field, prefix); found && (rest == "" || rest == "V6") {
				c.notes.add(Lost, c.advertised[i], "spec.aggregationLength"+rest, "%s; the single addresses are announced", one.Detail)
				c.config.BGP.Advertisements[i].AggregationLength, c.config.BGP.Advertisements[i].AggregationLengthV6 = 0, 0
				taken = true
			}
		}
	}
	if taken {
		if wrong, err = c.errors(); err != nil {
			return err
		}
	}
	for _, one := range wrong {
		c.notes.add(Action, "the cloud config", one.Field, "%s", one.ErrorBody())
	}
	return nil
}

// errors returns what the provider would refuse.
func (c *conversion) errors() (field.ErrorList, error) {
	text, err := Result{Config: c.config}.YAML()
	if err != nil {
		return nil, err
	}
	return config.Examine(text, "/").Errors, nil
}

// selected returns the names of the pools of an advertisement as it is in the config, and whether it selects all. Pools that only labels
// select are named, because ours have none.
func (c *conversion) selected(names []string, selectors []metav1.LabelSelector, note note) (pools []string, all bool) {
	if len(names) == 0 && len(selectors) == 0 {
		return nil, true
	}
	for i, name := range names {
		if !slices.ContainsFunc(c.config.Pools, func(pool config.Pool) bool { return pool.Name == PoolName(name) }) {
			note(Lost, fmt.Sprintf("spec.ipAddressPools[%d]", i), "there is no IPAddressPool %q", name)
			continue
		}
		pools = appendNew(pools, PoolName(name))
	}
	if len(selectors) == 0 {
		return pools, false
	}
	var matched []string
	for i := range c.from.pools {
		pool := &c.from.pools[i]
		if config.MatchesAny(selectors, pool.Metadata.Labels) {
			matched = append(matched, PoolName(pool.Metadata.Name))
			pools = appendNew(pools, PoolName(pool.Metadata.Name))
		}
	}
	note(Info, "spec.ipAddressPoolSelectors", "pools have no labels here; the config names the pools that match now: %s", listed(matched))
	return pools, false
}

// appendNew appends a text unless it is there.
func appendNew(to []string, text string) []string {
	if slices.Contains(to, text) {
		return to
	}
	return append(to, text)
}

// listed is a list for people.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// PoolName is the name that a pool has in the config: a DNS label, although an object's name may have dots.
func PoolName(name string) string { return strings.ReplaceAll(name, ".", "-") }

// YAML returns the config as a file, its fields in the order of their documentation.
func (r Result) YAML() ([]byte, error) {
	encoded, err := json.Marshal(r.Config)
	if err != nil {
		return nil, fmt.Errorf("encoding the cloud config: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(encoded, &document); err != nil { // JSON is YAML
		return nil, fmt.Errorf("encoding the cloud config: %w", err)
	}
	plain(&document)
	root := document.Content[0]
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "apiVersion" {
			version := slices.Clone(root.Content[i : i+2])
			root.Content = slices.Insert(slices.Delete(root.Content, i, i+2), 0, version...)
			break
		}
	}
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("encoding the cloud config: %w", err)
	}
	return []byte(text.String()), nil
}

// bare are texts that need no quotes in any version of YAML: names, paths, durations, IPv4 addresses, prefixes and ranges.
var bare = regexp.MustCompile(`^([A-Za-z/][A-Za-z0-9_./-]*|[0-9]+(\.[0-9]+){3}(/[0-9]+|-[0-9.]+)?|([0-9.]+(ms|h|m|s))+)$`)

// otherwise are words that mean something else than themselves in a version of YAML.
var otherwise = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// plain takes the style of JSON from a document. What is empty stays as it is: in blocks it has no notation.
func plain(node *yaml.Node) {
	quoted := node.Tag == "!!str" && (!bare.MatchString(node.Value) || slices.Contains(otherwise, strings.ToLower(node.Value)))
	if !quoted && (len(node.Content) > 0 || node.Kind == yaml.ScalarNode) {
		node.Style = 0
	}
	for _, content := range node.Content {
		plain(content)
	}
}
