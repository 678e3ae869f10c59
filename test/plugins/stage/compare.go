package stage

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// facts are what is true of a world: "node/a/providerID" is "aws:///zone/i-1".
type facts map[string]string

// snapshot is what is true of a world at one moment, and what its cloud was asked in this step.
type snapshot struct {
	facts facts
	calls []Call
}

// pair is a snapshot of both worlds.
type pair struct{ reference, mooring snapshot }

// equal reports whether two pairs have the same facts. Calls that only read may come at any time.
func (p pair) equal(other pair) bool {
	return maps.Equal(p.reference.facts, other.reference.facts) && maps.Equal(p.mooring.facts, other.mooring.facts)
}

// Intended is a difference between both managers that there shall be. Empty patterns match anything; all are regular
// expressions that have to match the whole.
type Intended struct {
	// Name says what differs, and Reason why it shall.
	Name, Reason string
	// Step and Fact say where it shows.
	Step, Fact string
	// Reference and Mooring are the values. A fact that is not there has the value "absent".
	Reference, Mooring string
	// Sometimes says that it depends on when things happen whether the difference shows. Others have to.
	Sometimes bool
}

// absent is the value of a fact that is not there.
const absent = "absent"

// difference is a fact that is not the same in both worlds.
type difference struct{ fact, reference, mooring string }

// differences returns what is not the same, sorted by facts.
func differences(now pair) []difference {
	var all []difference
	keys := maps.Clone(now.reference.facts)
	maps.Copy(keys, now.mooring.facts)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d := difference{key, valueOf(now.reference.facts, key), valueOf(now.mooring.facts, key)}
		if d.reference != d.mooring {
			all = append(all, d)
		}
	}
	return all
}

func valueOf(all facts, key string) string {
	if value, found := all[key]; found {
		return value
	}
	return absent
}

// judge tells intended differences from others.
type judge struct {
	intended []rule
}

type rule struct {
	Intended
	step, fact, reference, mooring *regexp.Regexp
	seen                           bool
}

func newJudge(intended []Intended) *judge {
	j := &judge{}
	for _, i := range intended {
		j.intended = append(j.intended, rule{
			Intended: i, step: whole(i.Step), fact: whole(i.Fact), reference: whole(i.Reference), mooring: whole(i.Mooring),
		})
	}
	return j
}

func whole(pattern string) *regexp.Regexp {
	if pattern == "" {
		pattern = ".*"
	}
	return regexp.MustCompile(`(?s)\A(?:` + pattern + `)\z`)
}

func (r *rule) matches(step string, d difference) bool {
	return r.step.MatchString(step) && r.fact.MatchString(d.fact) &&
		r.reference.MatchString(d.reference) && r.mooring.MatchString(d.mooring)
}

// compare returns the differences that are not intended.
func (j *judge) compare(step string, now pair) []difference {
	return slices.DeleteFunc(differences(now), func(d difference) bool {
		return slices.ContainsFunc(j.intended, func(r rule) bool { return r.matches(step, d) })
	})
}

// settle takes note of the intended differences that a step ended with.
func (j *judge) settle(step string, now pair) {
	for _, d := range differences(now) {
		for i := range j.intended {
			j.intended[i].seen = j.intended[i].seen || j.intended[i].matches(step, d)
		}
	}
}

// unseen returns the names of the intended differences that no step ended with.
func (j *judge) unseen() []string {
	var names []string
	for _, r := range j.intended {
		if !r.seen && !r.Sometimes {
			names = append(names, r.Name)
		}
	}
	return names
}

// show writes differences for people.
func show(all []difference) string {
	var text strings.Builder
	for _, d := range all {
		fmt.Fprintf(&text, "%s:\n%s\n", d.fact, cmp.Diff(strings.Split(d.reference, "\n"), strings.Split(d.mooring, "\n")))
	}
	return text.String()
}
