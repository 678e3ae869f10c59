// Package cloudconfig says what is wrong with the cloud config of a provider, without a cluster and without the provider's process.
package cloudconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/internal/tool/words"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	openstack "github.com/mooring-ccm/mooring/providers/openstack/config"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// Severity says whether a finding keeps a provider from taking the config.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// The texts of a report are lines that a terminal can show, of at most so many bytes.
const maxName, maxField, maxFinding = 200, 500, 4000

// Finding is one thing about a config.
type Finding struct {
	Severity Severity `json:"severity"`
	// Field is the path of the field, empty for what concerns the whole.
	Field string `json:"field,omitempty"`
	// Line is the field's line in the file, zero where it is not known.
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// Report is everything about a config.
type Report struct {
	// ConfigAPIVersion and ConfigKind are what the config says that it is, and Provider whose it is; empty if no provider has the kind. A
	// cloud.conf says nothing of itself: its kind is "cloud.conf", and it has no version.
	ConfigAPIVersion string    `json:"configAPIVersion"`
	ConfigKind       string    `json:"configKind"`
	Provider         string    `json:"provider,omitempty"`
	Valid            bool      `json:"valid"`
	Findings         []Finding `json:"findings"`
}

// kind is a kind of file that a provider reads.
type kind struct {
	name, version, provider string
	// examine finds everything but what the files hold that the config names, and those.
	examine func(data []byte, dir string) ([]Finding, []config.NamedFile)
}

// providers are those whose configs are known here.
var providers = []string{"metal", "openstack", "sim"}

// kinds are all that there are.
func kinds() []kind {
	return []kind{
		{config.CloudConfigKind, config.APIVersion, "metal", func(data []byte, dir string) ([]Finding, []config.NamedFile) {
			return metal(config.Examine(data, dir))
		}},
		{config.MachineListKind, config.APIVersion, "metal", func(data []byte, dir string) ([]Finding, []config.NamedFile) {
			return metal(config.ExamineMachineList(data, dir))
		}},
		{sim.ConfigKind, sim.ConfigAPIVersion, sim.ProviderName, simulated},
	}
}

// Examine says everything about the config in data. Relative paths in it are relative to dir. A file that the config names and that
// cannot be read here is an error with needFiles, and a warning without: it may be there where the manager runs. ProviderName says whose the
// config is; empty: the config says it.
func Examine(data []byte, dir, providerName string, needFiles bool) Report {
	switch looks := openstack.LooksLikeCloudConf(data); {
	case providerName != "" && !slices.Contains(providers, providerName):
		return Report{Findings: []Finding{{Severity: Error, Message: message.Printable(fmt.Sprintf("only the program of the provider %s can read its config; "+
			"this tool knows the providers %s", providerName, strings.Join(providers, ", ")), maxFinding)}}}
	case providerName == "" && looks && !openstack.HasOption(data):
		return Report{Findings: []Finding{{Severity: Error, Message: "the file does not say whose it is: it has sections of a cloud.conf, and no option of the " +
			"provider openstack. Give --cloud-provider=openstack if it is openstack's; another provider's file only its own program can read"}}}
	case providerName == "openstack", providerName == "" && looks:
		found, files := cloudConf(data)
		report := Report{ConfigKind: "cloud.conf", Provider: "openstack", Findings: found}
		report.finish(files, needFiles)
		return report
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(data, &meta); err != nil {
		return Report{Findings: []Finding{{Severity: Error, Message: message.Printable("neither YAML nor JSON: "+err.Error(), maxFinding)}}}
	}
	meta.APIVersion, meta.Kind = message.Printable(meta.APIVersion, maxName), message.Printable(meta.Kind, maxName)
	report := Report{ConfigAPIVersion: meta.APIVersion, ConfigKind: meta.Kind, Findings: []Finding{}}
	of, findings := kindOf(meta)
	if of == nil {
		report.Findings = findings
		return report
	}
	if providerName != "" && of.provider != providerName {
		report.Findings = []Finding{{Severity: Error, Field: "kind", Message: fmt.Sprintf("%s is of the provider %s, not of %s", meta.Kind, of.provider, providerName)}}
		return report
	}
	report.Provider = of.provider
	found, files := of.examine(data, dir)
	addLines(found, data)
	report.Findings = append(report.Findings, found...)
	report.finish(files, needFiles)
	return report
}

// finish adds the files that cannot be read here, and puts the findings in order.
func (r *Report) finish(files []config.NamedFile, needFiles bool) {
	severity, advice := Warning, "; it has to be readable where the manager runs"
	if needFiles {
		severity, advice = Error, ""
	}
	for _, file := range files {
		if err := file.Problem(); err != nil {
			r.Findings = append(r.Findings, Finding{Severity: severity, Field: file.Field, Message: fmt.Sprintf("%s: %v%s", file.Path, err, advice)})
		}
	}
	for i := range r.Findings {
		finding := &r.Findings[i]
		finding.Field, finding.Message = message.Printable(finding.Field, maxField), message.Printable(finding.Message, maxFinding)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return strings.Compare(string(a.Severity), string(b.Severity)) })
	r.Valid = r.Count(Error) == 0
}

// kindOf returns the kind of a config. One whose version alone is wrong is examined as that kind, which says so.
func kindOf(meta metav1.TypeMeta) (*kind, []Finding) {
	var known []string
	for _, candidate := range kinds() {
		group, _, _ := strings.Cut(meta.APIVersion, "/")
		if meta.Kind == candidate.name && (group == "" || strings.HasPrefix(candidate.version, group+"/")) {
			return &candidate, nil
		}
		known = append(known, fmt.Sprintf("%s of %s (provider %s)", candidate.name, candidate.version, candidate.provider))
	}
	if meta.Kind == "" || meta.APIVersion == "" {
		return nil, []Finding{{Severity: Error, Field: "kind", Message: "apiVersion and kind say what the file is; known here: " + strings.Join(known, ", ")}}
	}
	return nil, []Finding{{Severity: Error, Field: "kind", Message: fmt.Sprintf("%s of %s is of no provider of this tool; known here: %s", meta.Kind, meta.APIVersion,
		strings.Join(known, ", "))}}
}

func metal(seen config.Examination) ([]Finding, []config.NamedFile) {
	found := errorsOf(seen.Errors)
	for _, warning := range seen.Warnings {
		found = append(found, Finding{Severity: Warning, Field: warning.Field, Message: warning.Message})
	}
	return found, seen.Files
}

func simulated(data []byte, _ string) ([]Finding, []config.NamedFile) {
	errs, files := sim.ExamineConfig(data)
	return errorsOf(errs), named(files)
}

// cloudConf finds what is wrong with the config of the provider openstack, which is no YAML and has no kind, in the order of its lines.
func cloudConf(data []byte) ([]Finding, []config.NamedFile) {
	seen := openstack.Examine(data)
	findings := errorsOf(seen.Errors)
	for i := range findings {
		findings[i].Line = seen.Lines[findings[i].Field]
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return a.Line - b.Line })
	for _, warning := range seen.Warnings {
		findings = append(findings, Finding{Severity: Warning, Message: warning})
	}
	return findings, named(seen.Files)
}

// named returns files by the names of their fields.
func named(files map[string]string) []config.NamedFile {
	var all []config.NamedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, config.NamedFile{Field: name, Path: files[name]})
	}
	return all
}

func errorsOf(errs field.ErrorList) []Finding {
	var found []Finding
	for _, err := range errs {
		found = append(found, Finding{Severity: Error, Field: err.Field, Message: err.ErrorBody()})
	}
	return found
}

// Count returns how many findings are of a severity.
func (r Report) Count(severity Severity) int {
	count := 0
	for _, finding := range r.Findings {
		if finding.Severity == severity {
			count++
		}
	}
	return count
}

// Summary is the report in one line.
func (r Report) Summary() string {
	errors, warnings := words.Count(r.Count(Error), "error", "errors"), words.Count(r.Count(Warning), "warning", "warnings")
	return errors + ", " + warnings
}

// Text is the report for people.
func (r Report) Text(name string) string {
	var text strings.Builder
	if r.Provider == "" {
		fmt.Fprintf(&text, "%s\n", name)
	} else {
		fmt.Fprintf(&text, "%s: %s of the provider %s\n", name, r.ConfigKind, r.Provider)
	}
	for _, finding := range r.Findings {
		at := finding.Field
		if at != "" {
			at += ": "
		}
		if finding.Line > 0 {
			at = fmt.Sprintf("line %d: %s", finding.Line, at)
		}
		fmt.Fprintf(&text, "%-8s %s%s\n", strings.ToUpper(string(finding.Severity)), at, finding.Message)
	}
	state := "invalid"
	if r.Valid {
		state = "valid"
	}
	fmt.Fprintf(&text, "%s: %s\n", state, r.Summary())
	return text.String()
}
