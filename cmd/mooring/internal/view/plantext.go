package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	controllernames "k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/names"
)

// Plan is what a manager under --dry-run would do, with what the tool shows of it.
type Plan plan.Plan

// Counts are how many intents of each kind a plan holds.
type Counts struct{ Create, Change, Delete, Held int }

// String is the last line of a plan.
func (c Counts) String() string {
	return fmt.Sprintf("%d to create, %d to change, %d to delete, %d held", c.Create, c.Change, c.Delete, c.Held)
}

// Counts counts the intents. One that holds a node back from its deletion counts as held only.
func (p Plan) Counts() Counts {
	var c Counts
	for _, intent := range p.Intents {
		switch {
		case holds(intent):
			c.Held++
		case intent.Effect == plan.Creates:
			c.Create++
		case intent.Effect == plan.Deletes:
			c.Delete++
		default:
			c.Change++
		}
	}
	return c
}

// hidden replaces a secret value in the output.
const hidden = "(hidden)"

// WithoutSecrets returns the plan without the values of Secrets.
func (p Plan) WithoutSecrets() Plan {
	p.Intents = slices.Clone(p.Intents)
	for i := range p.Intents {
		if p.Intents[i].Kind != "Secret" {
			continue
		}
		p.Intents[i].Changes = slices.Clone(p.Intents[i].Changes)
		for j := range p.Intents[i].Changes {
			change := &p.Intents[i].Changes[j]
			change.From, change.To = conceal(change.From), conceal(change.To)
		}
	}
	return p
}

func conceal(value any) any {
	if value == nil {
		return nil
	}
	return hidden
}

// holds reports whether an intent keeps a node whose instance the cloud denies: it writes the condition that says so.
func holds(intent plan.Intent) bool {
	if intent.Controller != controllernames.CloudNodeLifecycleController || intent.Kind != "Node" || intent.Verb != "patch status" {
		return false
	}
	// A list is compared element by element, so a condition that comes or goes may show as others that change places.
	from, to := false, false
	for _, change := range intent.Changes {
		if strings.HasPrefix(change.Path, "/status/conditions") && strings.HasSuffix(change.Path, "/type") {
			from = from || change.From == string(names.ConditionInstanceGone)
			to = to || change.To == string(names.ConditionInstanceGone)
		}
	}
	return to || !from
}

// settled is how long a dry run takes until controllers that confirm what they see have come to a plan.
const settled = time.Minute

// The bounds of what is shown without Style.All.
const (
	maxChanges = 8
	maxValue   = 60
)

// Text is the plan for people: by object what would be done, why, and which fields would differ.
func (p Plan) Text(now time.Time, style Style) string {
	p = p.WithoutSecrets()
	var out strings.Builder
	fmt.Fprintf(&out, "Plan for cluster %s, provider %s, after a dry run of %s\n", quoted(p.Cluster), quoted(p.Provider), age(now, p.Since))
	if p.Warning != "" {
		fmt.Fprintf(&out, "%s %s.\n", style.paint("WARNING:", red), Printable(strings.TrimSuffix(p.Warning, ".")))
	}
	if now.Sub(p.Since) < settled {
		out.WriteString("The dry run has only begun: controllers that confirm what they see may add to this in a few periods.\n")
	}
	width, object := 0, ""
	for _, intent := range p.Intents {
		width = max(width, utf8.RuneCountInString(what(intent)))
	}
	for _, intent := range p.Intents {
		if name := objectOf(intent); name != object {
			object = name
			fmt.Fprintf(&out, "\n%s\n", style.paint(name, bold))
		}
		writeIntent(&out, style, intent, width)
	}
	out.WriteByte('\n')
	if len(p.Intents) == 0 {
		out.WriteString("There is nothing to do.\n")
	}
	if p.Compared != nil {
		plural := "s"
		if p.Compared.LoadBalancers == 1 {
			plural = ""
		}
		fmt.Fprintf(&out, "Of %d load balancer%s nothing differs. Not compared: %s.\n", p.Compared.LoadBalancers, plural,
			Printable(strings.Join(p.Compared.NotCompared, "; ")))
	}
	fmt.Fprintf(&out, "%s\n", p.Counts())
	return out.String()
}

// writeIntent writes a line for an intent, and one for each field that would differ.
func writeIntent(out *strings.Builder, style Style, intent plan.Intent, width int) {
	sign, with := signOf(intent)
	line := fmt.Sprintf("%-*s  %s", width, what(intent), Printable(intent.Why))
	fmt.Fprintf(out, "  %s %s\n", style.paint(sign, with), strings.TrimRight(line, " "))
	for i, change := range intent.Changes {
		if i == maxChanges && !style.All {
			fmt.Fprintf(out, "      ... and %d more fields, which --all shows\n", len(intent.Changes)-maxChanges)
			return
		}
		fmt.Fprintf(out, "      %s\n", difference(style, change))
	}
}

// signOf is the sign before an intent.
func signOf(intent plan.Intent) (string, color) {
	switch {
	case holds(intent):
		return "!", yellow
	case intent.Effect == plan.Creates:
		return "+", green
	case intent.Effect == plan.Deletes:
		return "-", red
	default:
		return "~", yellow
	}
}

// what says what would be done, and where.
func what(intent plan.Intent) string {
	verb := Printable(intent.Verb)
	if holds(intent) {
		return "hold back the deletion"
	}
	if intent.Where == plan.TheCloud {
		return verb + " in the cloud"
	}
	return verb
}

// objectOf names the object of an intent.
func objectOf(intent plan.Intent) string {
	if intent.Namespace == "" {
		return Printable(intent.Kind + " " + intent.Name)
	}
	return Printable(intent.Kind + " " + intent.Namespace + "/" + intent.Name)
}

// difference shows a field that would differ.
func difference(style Style, change plan.Change) string {
	path := Printable(change.Path)
	switch {
	case change.From == nil:
		return style.paint("+", green) + " " + path + ": " + value(style, change.To)
	case change.To == nil:
		return style.paint("-", red) + " " + path + ": " + value(style, change.From)
	default:
		return style.paint("~", yellow) + " " + path + ": " + value(style, change.From) + " -> " + value(style, change.To)
	}
}

// value shows a value as JSON, cut unless all is to be shown.
func value(style Style, of any) string {
	encoded, err := json.Marshal(of)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	text := []rune(Printable(string(encoded)))
	if len(text) > maxValue && !style.All {
		return string(text[:maxValue-3]) + "..."
	}
	return string(text)
}

// quoted shows a name that may be empty or strange.
func quoted(name string) string { return fmt.Sprintf("%q", name) }
