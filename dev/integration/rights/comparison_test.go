package rights_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// comparison holds what a manifest grants against what was asked for.
type comparison struct {
	grants   []grant
	requests map[request]int
}

// unused returns the grants without which every request would have passed as well.
func (c comparison) unused() []grant {
	return slices.DeleteFunc(slices.Clone(c.grants), func(g grant) bool { return c.uses(g) > 0 })
}

// uses returns how many requests passed by a grant and no other.
func (c comparison) uses(g grant) int {
	uses := 0
	for r, count := range c.requests {
		covers := func(other grant) bool { return other != g && other.covers(r) }
		if !r.refused && g.covers(r) && !slices.ContainsFunc(c.grants, covers) {
			uses += count
		}
	}
	return uses
}

// refused returns the requests that were answered with 403.
func (c comparison) refused() []request {
	return slices.DeleteFunc(c.sorted(), func(r request) bool { return !r.refused })
}

// tooWide returns the grants for all namespaces, or for all names, of a resource of which only one was ever asked for.
func (c comparison) tooWide() []string {
	var found []string
	for _, g := range c.grants {
		if g.given != "" {
			continue
		}
		namespaces, names := map[string]bool{}, map[string]bool{}
		for r := range c.requests {
			if r.binding == g.binding && r.group == g.group && r.resource == g.resource {
				namespaces[r.namespace], names[r.name] = true, true
			}
		}
		if namespace := only(namespaces); g.namespace == "" && namespace != "" {
			found = append(found, fmt.Sprintf("%s: asked for in namespace %s only", g, namespace))
		}
		if name := only(names); g.name == "" && name != "" && g.canBeNamed() {
			found = append(found, fmt.Sprintf("%s: asked for %q only", g, name))
		}
	}
	return found
}

// only returns the one element of a set that has one.
func only(set map[string]bool) string {
	if len(set) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(set))[0]
}

// sorted returns the requests by what let them pass and what they are about.
func (c comparison) sorted() []request {
	return slices.SortedFunc(maps.Keys(c.requests), func(a, b request) int {
		return cmp.Or(cmp.Compare(a.binding, b.binding), cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.verb, b.verb), cmp.Compare(a.String(), b.String()))
	})
}

// String is both sets, for people: each grant with the number of requests that needed it, and what was asked for with what let
// it pass. Requests that differ by the object's name only are one line.
func (c comparison) String() string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "NEEDED BY\tGRANTED\tBY")
	for _, g := range c.grants {
		fmt.Fprintf(columns, "%d requests\t%s\t%s\n", c.uses(g), g, g.binding)
	}
	fmt.Fprintln(columns, "ASKED FOR\tWHAT\tPASSED BY")
	counts := map[request]int{}
	var kinds []request
	for _, r := range c.sorted() {
		kind := r
		if !r.refused {
			kind.name = ""
		}
		if counts[kind] == 0 {
			kinds = append(kinds, kind)
		}
		counts[kind] += c.requests[r]
	}
	for _, kind := range kinds {
		passed := kind.binding
		if kind.refused {
			passed = "nothing: refused"
		}
		fmt.Fprintf(columns, "%d times\t%s\t%s\n", counts[kind], kind, passed)
	}
	_ = columns.Flush() // to memory
	return b.String()
}
