package figures

import (
	"fmt"
	"slices"
	"strings"
)

// Merge returns the report with the results of a part, which was measured separately. These results replace the report's results of the same scenario
// and variant. The remark names them, and the machine of the part if it differs. Merge fails if sizes or versions differ, or if a scenario would have
// figures of two machines. Order is the order of the scenarios.
func (r Report) Merge(part Report, order []string) (Report, error) {
	if err := r.comparable(part); err != nil {
		return Report{}, err
	}
	where := ""
	if !r.Machine.same(part.Machine) {
		where = fmt.Sprintf(" on another machine (%s, %d cores)", part.Machine.CPU, part.Machine.Cores)
	}
	r.Results = append(slices.DeleteFunc(slices.Clone(r.Results), func(old Result) bool {
		_, replaced := part.Find(old.Scenario, old.Variant)
		return replaced
	}), part.Results...)
	variants := r.Setup.Variants
	place := func(one Result) int {
		variant := slices.IndexFunc(variants, func(v Variant) bool { return v.Name == one.Variant })
		return slices.Index(order, one.Scenario)*len(variants) + variant
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int { return place(a) - place(b) })
	r.Seconds += part.Seconds
	r.Setup.Size = part.Setup.Size
	r.Remark = strings.TrimSpace(r.Remark + fmt.Sprintf("\nThe figures of `%s` come from a run of their own%s on %s.",
		strings.Join(part.Scenarios(), "`, `"), where, part.Began.Format("2006-01-02")))
	return r, nil
}

// comparable returns an error that names everything in which another report differs, so its figures do not belong
// beside these.
func (r Report) comparable(other Report) error {
	var differ []string
	for _, compared := range []struct {
		what      string
		one, with any
	}{
		{"version of Kubernetes", r.Setup.Kubernetes, other.Setup.Kubernetes},
		{"version of the reference", r.Setup.Reference, other.Setup.Reference},
		{"latency of the cloud", r.Setup.Latency, other.Setup.Latency},
		{"number of nodes", r.Setup.Size.Nodes, other.Setup.Size.Nodes},
	} {
		if compared.one != compared.with {
			differ = append(differ, fmt.Sprintf("%s: %v and %v", compared.what, compared.one, compared.with))
		}
	}
	for _, result := range r.Results {
		_, replaced := other.Find(result.Scenario, result.Variant)
		if slices.Contains(other.Scenarios(), result.Scenario) && !replaced && !r.Machine.same(other.Machine) {
			differ = append(differ, fmt.Sprintf("machine: %s of %s was measured on the old one only", result.Scenario, result.Variant))
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("figures that do not belong together: %s", strings.Join(differ, "; "))
	}
	return nil
}

// same reports whether figures of two machines can be compared.
func (m Machine) same(other Machine) bool { return m.CPU == other.CPU && m.Cores == other.Cores }
