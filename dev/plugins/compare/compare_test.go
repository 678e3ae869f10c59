package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// of is a pair with these facts.
func of(reference, mooring facts) pair {
	return pair{reference: snapshot{facts: reference}, mooring: snapshot{facts: mooring}}
}

func judging(t *testing.T, intended ...Intended) *expectations {
	t.Helper()
	for i := range intended {
		intended[i].Reason = "because"
	}
	j, err := newExpectations(intended)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestDifferencesThatAreNotIntendedAreFound(t *testing.T) {
	same := facts{"node/a/label/x": "1"}
	for name, test := range map[string]struct {
		now      pair
		intended []Intended
		want     []string
	}{
		"none":                   {of(same, same), nil, nil},
		"another value":          {of(same, facts{"node/a/label/x": "2"}), nil, []string{"node/a/label/x"}},
		"a fact too few":         {of(same, nil), nil, []string{"node/a/label/x"}},
		"a fact too many":        {of(nil, same), nil, []string{"node/a/label/x"}},
		"an intended difference": {of(nil, same), []Intended{{Name: "x", Fact: "node/.*/label/x", Reference: absent}}, nil},
		"intended for another value of the reference": {
			of(same, nil), []Intended{{Name: "x", Fact: "node/.*/label/x", Reference: absent}}, []string{"node/a/label/x"},
		},
		"intended for another value of Mooring": {
			of(nil, same), []Intended{{Name: "x", Fact: "node/.*/label/x", Mooring: "2"}}, []string{"node/a/label/x"},
		},
		"intended in another step":        {of(nil, same), []Intended{{Name: "x", Step: "later"}}, []string{"node/a/label/x"}},
		"intended for a part of the fact": {of(nil, same), []Intended{{Name: "x", Fact: "label/x"}}, []string{"node/a/label/x"}},
		"values of several lines":         {of(facts{"a": "1\n2"}, facts{"a": "1\n3"}), []Intended{{Name: "x", Mooring: "1.*"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, d := range judging(t, test.intended...).compare("now", test.now) {
				found = append(found, d.fact)
			}
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIntendedDifferencesHaveToShow(t *testing.T) {
	j := judging(t,
		Intended{Name: "shows", Fact: "a"}, Intended{Name: "does not", Fact: "b"}, Intended{Name: "may", Fact: "c", Sometimes: true})
	j.compare("now", of(facts{"b": "1"}, nil)) // in passing, while the step is under way
	j.note("now", of(facts{"a": "1"}, nil))
	if unseen := j.unseen(); !slices.Equal(unseen, []string{"does not"}) {
		t.Errorf("%q are said not to show", unseen)
	}
}

func TestIntendedDifferencesNeedNameReasonAndPatterns(t *testing.T) {
	for _, wrong := range []Intended{{Reason: "r"}, {Name: "n"}, {Name: "n", Reason: "r", Fact: "("}} {
		if _, err := newExpectations([]Intended{wrong}); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

func TestTheBillCountsByStepAndAction(t *testing.T) {
	var b callCounts
	read, write := Call{Action: "Read"}, Call{Action: "Write"}
	b.add("one", []Call{read, read}, []Call{read})
	b.add("two", []Call{read}, []Call{write, write})
	if problems := b.moreCalls(nil, map[string]int{"Write": 1}); len(problems) != 1 || !strings.Contains(problems[0], "Write 2 times more often") {
		t.Errorf("what is moreCalls is %q", problems)
	}
	if problems := b.moreCalls(nil, map[string]int{"Write": 2}); len(problems) > 0 {
		t.Errorf("what is moreCalls with a refresh more is %q", problems)
	}
	if problems := b.moreCalls(map[string]string{"Write": "because"}, nil); len(problems) > 0 {
		t.Errorf("what is moreCalls with a reason is %q", problems)
	}
	var rows []string
	for row := range strings.Lines(b.table()) {
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	want := []string{
		"step action reference Mooring", "one Read 2 1", "one (any) 2 1", "two Read 1 0", "two Write 0 2", "two (any) 1 2",
		"all steps Read 3 1", "all steps Write 0 2", "all steps (any) 3 3",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}
