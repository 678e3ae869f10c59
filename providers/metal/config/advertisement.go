package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// BGPAdvertisement says which addresses of load balancers go to which peers, by which nodes and with which attributes. An
// address is announced to a peer if at least one advertisement selects both.
//
// Several may select one address for one peer. A node is a next hop if one of them selects it; its path has the communities of
// all that do, and the highest of their local preferences. Routes to pods are not subject to advertisements.
type BGPAdvertisement struct {
	// Name names the advertisement in errors and conditions. Default: its place in the list, from 0.
	Name string `json:"name,omitempty"`
	// Pools are the names of the pools whose addresses are announced. Default: all.
	Pools []string `json:"pools,omitempty"`
	// ServiceSelectors select the Services whose addresses are announced, by their labels; one that matches is enough. Of Services
	// that share an address, one that is selected is enough. They do not go with AggregationLength or AggregationLengthV6.
	// Default: all.
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
	// Peers are the names of the peers that get the addresses. Default: all.
	Peers []string `json:"peers,omitempty"`
	// NodeSelectors select the nodes that may be next hops, by their labels; one that matches is enough. They choose among those of
	// announcement.nodeSelector. Default: all of these.
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`
	// BGPAttributes go with the addresses. What is set here stands in the place of what the section or bgp.pools sets.
	BGPAttributes `json:",inline"`
	// AggregationLength is the length of the prefix that is announced in the place of each IPv4 address within, 1 to 32. All
	// addresses of the prefix have to be of one pool. Its next hops are nodes that take traffic of all its addresses that are in
	// use; if there is none, as may be with externalTrafficPolicy Local, nodes that take traffic of any, and a router needs the
	// single addresses, by another advertisement, to choose the right one. Default: 32.
	AggregationLength int32 `json:"aggregationLength,omitempty"`
	// AggregationLengthV6 is the same for IPv6, 1 to 128. Default: 128.
	AggregationLengthV6 int32 `json:"aggregationLengthV6,omitempty"`
}

// Length returns the length of the prefix that stands for an address.
func (a *BGPAdvertisement) Length(addr netip.Addr) int {
	if addr.Is4() {
		return int(cmp.Or(a.AggregationLength, 32))
	}
	return int(cmp.Or(a.AggregationLengthV6, 128))
}

// MatchesAny reports whether labels match one of the selectors, or there is none. A selector that is invalid, which none of a
// config that was loaded is, matches nothing.
func MatchesAny(selectors []metav1.LabelSelector, of map[string]string) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(one metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&one)
		return err == nil && selector.Matches(labels.Set(of))
	})
}

// resolveAliases puts the values of communities in the place of their names.
func (b *BGP) resolveAliases() {
	resolve := func(attributes *BGPAttributes) {
		for i, text := range attributes.Communities {
			if value, found := b.CommunityAliases[text]; found {
				attributes.Communities[i] = value
			}
		}
	}
	resolve(&b.BGPAttributes)
	for i := range b.Pools {
		resolve(&b.Pools[i].BGPAttributes)
	}
	for i := range b.Peers {
		resolve(&b.Peers[i].BGPAttributes)
	}
	for i := range b.Advertisements {
		resolve(&b.Advertisements[i].BGPAttributes)
	}
}

// validateAliases says what is wrong with the names of communities.
func (b *BGP) validateAliases(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, value := range b.CommunityAliases {
		if _, _, err := (BGPAttributes{Communities: []string{name}}).ParseCommunities(); err == nil || name == "" {
			errs = append(errs, field.Invalid(path, name, "must be a name that is not a community by itself"))
		}
		errs = append(errs, validateCommunity(path.Key(name), value)...)
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return errs
}

// validateAdvertisements says what is wrong with each advertisement, and with what it names.
func (b *BGP) validateAdvertisements(path *field.Path, pools []Pool) field.ErrorList {
	var errs field.ErrorList
	peers, named, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range b.Peers {
		peers[b.Peers[i].Name] = true
	}
	for i := range pools {
		named[pools[i].Name] = true
	}
	for i := range b.Advertisements {
		advertisement, at := &b.Advertisements[i], path.Index(i)
		if names[advertisement.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), advertisement.Name))
		}
		names[advertisement.Name] = true
		errs = append(errs, validateNames(at.Child("pools"), advertisement.Pools, named)...)
		errs = append(errs, validateNames(at.Child("peers"), advertisement.Peers, peers)...)
		errs = append(errs, validateSelectors(at.Child("serviceSelectors"), advertisement.ServiceSelectors)...)
		errs = append(errs, validateSelectors(at.Child("nodeSelectors"), advertisement.NodeSelectors)...)
		errs = append(errs, advertisement.BGPAttributes.validate(at)...)
		errs = append(errs, advertisement.validateLengths(at, pools)...)
	}
	return errs
}

// validateLengths says which lengths are impossible, and which prefixes would hold addresses that are of no pool that is announced.
func (a *BGPAdvertisement) validateLengths(path *field.Path, pools []Pool) field.ErrorList {
	var errs field.ErrorList
	for _, one := range []struct {
		at     *field.Path
		length int32
		bits   int
	}{
		{path.Child("aggregationLength"), a.AggregationLength, 32},
		{path.Child("aggregationLengthV6"), a.AggregationLengthV6, 128},
	} {
		switch {
		case one.length == 0 || int(one.length) == one.bits:
		case one.length < 1 || int(one.length) > one.bits:
			errs = append(errs, field.Invalid(one.at, one.length, fmt.Sprintf("must be 1 to %d", one.bits)))
		case len(a.ServiceSelectors) > 0:
			errs = append(errs, field.Invalid(one.at, one.length,
				"does not go with serviceSelectors: a prefix is not of single Services"))
		default:
			errs = append(errs, a.validateWithin(one.at, int(one.length), one.bits, pools)...)
		}
	}
	return errs
}

// validateWithin says which prefixes of a length have addresses that are not of the pool of others: the router would send the
// traffic of these here, too.
func (a *BGPAdvertisement) validateWithin(path *field.Path, length, bits int, pools []Pool) field.ErrorList {
	var errs field.ErrorList
	for i := range pools {
		ranges, err := pools[i].Ranges()
		if err != nil || len(a.Pools) > 0 && !slices.Contains(a.Pools, pools[i].Name) {
			continue // what cannot be read is reported where it is
		}
		for _, one := range ranges {
			if one.First.BitLen() != bits {
				continue
			}
			for _, addr := range []netip.Addr{one.First, one.Last} {
				prefix, _ := addr.Prefix(length)
				if !covered(rangeOf(prefix), ranges) {
					errs = append(errs, field.Invalid(path, length, fmt.Sprintf(
						"%s also has addresses that are not in pool %q, which has %s", prefix, pools[i].Name, one)))
					break
				}
			}
		}
	}
	return errs
}

// covered reports whether all addresses of a range are in others, which do not overlap.
func covered(whole AddressRange, ranges []AddressRange) bool {
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b AddressRange) int { return a.First.Compare(b.First) })
	next := whole.First
	for _, one := range sorted {
		if !overlap(one, AddressRange{next, whole.Last}) || next.Less(one.First) {
			continue
		}
		if !one.Last.Less(whole.Last) {
			return true
		}
		next = one.Last.Next()
	}
	return false
}

// validateNames says which names do not exist or are there twice.
func validateNames(path *field.Path, names []string, known map[string]bool) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case !known[name]:
			errs = append(errs, field.NotFound(path.Index(i), name))
		case seen[name]:
			errs = append(errs, field.Duplicate(path.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}

func validateSelectors(path *field.Path, selectors []metav1.LabelSelector) field.ErrorList {
	var errs field.ErrorList
	for i := range selectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(&selectors[i],
			metav1validation.LabelSelectorValidationOptions{}, path.Index(i))...)
	}
	return errs
}

// validateSubnets says which subnets are none, or are there twice.
func validateSubnets(path *field.Path, subnets []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[netip.Prefix]bool{}
	for i, text := range subnets {
		prefix, err := parseSubnet(text)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text, err.Error()))
		case seen[prefix]:
			errs = append(errs, field.Duplicate(path.Index(i), text))
		}
		seen[prefix] = true
	}
	return errs
}

// parseSubnet reads a prefix without bits beyond its length.
func parseSubnet(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return prefix, fmt.Errorf("must be a prefix such as 10.1.0.0/16")
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("the address has bits beyond the prefix length; the prefix is %s", prefix.Masked())
	case prefix.Addr().Is4In6():
		return prefix, fmt.Errorf("must not be an IPv4 prefix in the notation of IPv6")
	}
	return prefix, nil
}
