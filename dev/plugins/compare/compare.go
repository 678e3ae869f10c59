package compare

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// facts are what is true of a environment: "node/a/providerID" is "aws:///zone/i-1".
type facts map[string]string

// snapshot is what is true of a environment at one moment, and what its cloud was asked in this step.
type snapshot struct {
	facts facts
	calls []Call
}

// pair is a snapshot of both environments.
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

// difference is a fact that is not the same in both environments.
type difference struct{ fact, reference, mooring string }

// differences returns what is not the same, sorted by facts.
func differences(now pair) []difference {
	var all []difference
	keys := facts{}
	maps.Copy(keys, now.reference.facts)
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

// expectations distinguish intended differences from others.
type expectations struct {
	intended []rule
}

type rule struct {
	Intended
	step, fact, reference, mooring *regexp.Regexp
	seen                           bool
}

// newExpectations returns an error if a difference is not named, has no reason, or a pattern of it cannot be read.
func newExpectations(intended []Intended) (*expectations, error) {
	e := &expectations{}
	var errs []error
	for _, i := range intended {
		if i.Name == "" || i.Reason == "" {
			errs = append(errs, fmt.Errorf("the intended difference %+v needs a name and a reason", i))
		}
		r := rule{Intended: i}
		for pattern, into := range map[*string]**regexp.Regexp{
			&i.Step: &r.step, &i.Fact: &r.fact, &i.Reference: &r.reference, &i.Mooring: &r.mooring,
		} {
			compiled, err := whole(*pattern)
			if err != nil {
				errs = append(errs, fmt.Errorf("the intended difference %q: %w", i.Name, err))
			}
			*into = compiled
		}
		e.intended = append(e.intended, r)
	}
	return e, errors.Join(errs...)
}

// whole returns an expression that has to match all of a text, whatever lines it has.
func whole(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		pattern = ".*"
	}
	return regexp.Compile(`(?s)\A(?:` + pattern + `)\z`)
}

func (r *rule) matches(step string, d difference) bool {
	return r.step.MatchString(step) && r.fact.MatchString(d.fact) &&
		r.reference.MatchString(d.reference) && r.mooring.MatchString(d.mooring)
}

// compare returns the differences that are not intended.
func (e *expectations) compare(step string, now pair) []difference {
	return slices.DeleteFunc(differences(now), func(d difference) bool {
		return slices.ContainsFunc(e.intended, func(r rule) bool { return r.matches(step, d) })
	})
}

// note takes note of the intended differences that a step ended with.
func (e *expectations) note(step string, now pair) {
	for _, d := range differences(now) {
		for i := range e.intended {
			e.intended[i].seen = e.intended[i].seen || e.intended[i].matches(step, d)
		}
	}
}

// unseen returns the names of the intended differences that no step ended with.
func (e *expectations) unseen() []string {
	var names []string
	for _, r := range e.intended {
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
