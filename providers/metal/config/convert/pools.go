package convert

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// firstPriority is what a pool has here that is MetalLB's first but one: priorities count the other way round.
const firstPriority = 1000

// convertPools converts the pools.
func (c *conversion) convertPools() {
	base := firstPriority
	for i := range c.from.pools {
		if allocation := c.from.pools[i].Spec.ServiceAllocation; allocation != nil {
			base = max(base, allocation.Priority+1) // pools that have none come last, and have 0 here too
		}
	}
	for i := range c.from.pools {
		c.config.Pools = append(c.config.Pools, c.pool(&c.from.pools[i], base))
	}
}

func (c *conversion) pool(from *ipAddressPool, base int) config.Pool {
	note := c.notes.of(from.name())
	made := config.Pool{Name: PoolName(from.Metadata.Name), AutoAssign: from.Spec.AutoAssign, AvoidBuggyIPs: from.Spec.AvoidBuggyIPs}
	if made.Name != from.Metadata.Name {
		note(Action, "metadata.name", "the pool is %q here, without dots; change what Services ask for by the annotation address-pool", made.Name)
	}
	for i, text := range from.Spec.Addresses {
		made.Addresses = append(made.Addresses, addresses(text, fmt.Sprintf("spec.addresses[%d]", i), note))
	}
	allocation := from.Spec.ServiceAllocation
	if allocation == nil {
		return made
	}
	if allocation.Priority > 0 {
		made.Priority = base - allocation.Priority
	}
	made.Namespaces = allocation.Namespaces
	made.NamespaceSelector = single(allocation.NamespaceSelectors, "spec.serviceAllocation.namespaceSelectors", note)
	made.ServiceSelector = single(allocation.ServiceSelectors, "spec.serviceAllocation.serviceSelectors", note)
	if selector := made.NamespaceSelector; selector != nil && len(selector.MatchExpressions) == 0 && len(selector.MatchLabels) == 1 {
		if name := selector.MatchLabels[corev1.LabelMetadataName]; name != "" {
			made.Namespaces, made.NamespaceSelector = appendNew(slices.Clone(made.Namespaces), name), nil
		}
	}
	return made
}

// addresses is a range as a pool of ours has it: prefixes without bits beyond their length, ranges without spaces.
func addresses(text, field string, note note) string {
	trimmed := strings.TrimSpace(text)
	if prefix, err := netip.ParsePrefix(trimmed); err == nil && prefix != prefix.Masked() {
		note(Info, field, "%s is %s, without bits beyond its length", trimmed, prefix.Masked())
		return prefix.Masked().String()
	}
	first, last, isRange := strings.Cut(trimmed, "-")
	if isRange {
		return strings.TrimSpace(first) + "-" + strings.TrimSpace(last)
	}
	return trimmed
}

// single makes one selector of several of which one has to match. That is possible where all ask for a value of one label.
func single(selectors []metav1.LabelSelector, field string, note note) *metav1.LabelSelector {
	switch {
	case len(selectors) == 0:
		return nil
	case len(selectors) == 1:
		return &selectors[0]
	}
	var key string
	var values []string
	for i := range selectors {
		if reflect.DeepEqual(selectors[i], metav1.LabelSelector{}) {
			return nil // one that selects everything
		}
		if len(selectors[i].MatchLabels) != 1 || len(selectors[i].MatchExpressions) > 0 {
			key = ""
			break
		}
		for label, value := range selectors[i].MatchLabels {
			if i > 0 && label != key {
				key = ""
			} else {
				key = label
			}
			values = appendNew(values, value)
		}
		if key == "" {
			break
		}
	}
	if key == "" {
		note(Lost, field, "of %d selectors only the first is there, because a pool has one here; pools for the others need addresses of their own", len(selectors))
		return &selectors[0]
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values},
	}}
}
