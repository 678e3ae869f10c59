package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// EntryFormat is the format of entries that this program writes and reads. It is raised when an old reader would misunderstand a new
// entry.
const EntryFormat = 1

// Next is the version of figures that were measured after the last release. They become those of a release when it is cut.
const Next = "next"

// MainScenarios are those whose ratios are followed over releases, in the order in which they are shown.
var MainScenarios = []string{
	"join-1000", "join-5000", "routes-1000", "services-200", "notready-1000", "quota-600", "leader-sigterm", "leader-sigkill",
}

// Entry is what the history keeps of the figures of one release: enough to draw them and to compare releases.
type Entry struct {
	// Format is EntryFormat.
	Format int `json:"format"`
	// Version is the version of the release, such as v0.1.0, or Next.
	Version string `json:"version"`
	// Began is when the benchmark began. No two runs have it in common.
	Began time.Time `json:"began"`
	// Remark is the remark of the report.
	Remark string `json:"remark,omitempty"`
	// Machine is where it ran.
	Machine Machine `json:"machine"`
	// Kubernetes is the version of the API server, and Reference module and version of the reference.
	Kubernetes string `json:"kubernetes"`
	Reference  string `json:"reference"`
	// Latency is what a call of the cloud takes.
	Latency time.Duration `json:"latency"`
	Size    EntrySize     `json:"size"`
	// Results are those of all scenarios and variants, in the report's order. They stand last: Encode relies on it.
	Results []EntryResult `json:"results"`
}

// EntrySize are the sizes that decide how long a scenario takes. Ratios of different sizes say nothing about each other.
type EntrySize struct {
	Nodes      int     `json:"nodes"`
	ManyNodes  int     `json:"manyNodes"`
	QuotaNodes int     `json:"quotaNodes"`
	Services   int     `json:"services"`
	QuotaRate  float64 `json:"quotaRate"`
}

// EntryResult is what one variant did in one scenario. The fields are those of Result, with sums in place of counts by kind and times
// rounded to milliseconds.
type EntryResult struct {
	Scenario   string  `json:"scenario"`
	Variant    string  `json:"variant"`
	Seconds    float64 `json:"seconds"`
	Complete   bool    `json:"complete"`
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakBytes  int64   `json:"peakBytes"`
	Calls      int64   `json:"calls"`
	Writes     int     `json:"writes"`
}

// NewEntry returns what the history keeps of a report, as figures of the next release.
func NewEntry(measured Report) Entry {
	entry := Entry{
		Format: EntryFormat, Version: Next, Began: measured.Began, Remark: measured.Remark, Machine: measured.Machine,
		Kubernetes: measured.Setup.Kubernetes, Reference: measured.Setup.Reference, Latency: measured.Setup.Latency,
		Size: entrySize(measured.Setup.Size),
	}
	for _, result := range measured.Results {
		entry.Results = append(entry.Results, EntryResult{
			Scenario: result.Scenario, Variant: result.Variant, Seconds: milliseconds(result.Seconds), Complete: result.Complete,
			CPUSeconds: milliseconds(result.CPUSeconds), PeakBytes: result.PeakBytes, Calls: result.Received(), Writes: result.Written(),
		})
	}
	return entry
}

// milliseconds rounds seconds to three digits behind the point: what is shorter cannot be measured.
func milliseconds(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

func entrySize(size Size) EntrySize {
	return EntrySize{
		Nodes: size.Nodes, ManyNodes: size.ManyNodes, QuotaNodes: size.QuotaNodes, Services: size.Services, QuotaRate: size.QuotaRate,
	}
}

// Encode returns the entry as JSON with a line for each result, so a difference of two files can be read.
func (e Entry) Encode() ([]byte, error) {
	results := e.Results
	e.Results = []EntryResult{}
	head, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the figures of %s: %w", e.Version, err)
	}
	var lines []string
	for _, result := range results {
		line, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encode the figures of %s: %s of %s: %w", e.Version, result.Scenario, result.Variant, err)
		}
		lines = append(lines, "    "+string(line))
	}
	return fmt.Appendf(nil, "%s[\n%s\n  ]\n}\n", bytes.TrimSuffix(head, []byte("[]\n}")), strings.Join(lines, ",\n")), nil
}

// ParseEntry reads what Encode wrote. It refuses other formats and fields that it does not know, because half an entry draws a wrong
// chart.
func ParseEntry(data []byte) (Entry, error) {
	var tagged struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &tagged); err != nil {
		return Entry{}, err
	}
	if tagged.Format != EntryFormat {
		return Entry{}, fmt.Errorf("format is %d, must be %d: this checkout reads no other", tagged.Format, EntryFormat)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var entry Entry
	if err := decoder.Decode(&entry); err != nil {
		return Entry{}, err
	}
	if entry.Version == Next {
		return entry, nil
	}
	return entry, CheckVersion(entry.Version)
}

// CheckVersion returns an error for a version that no release has: releases are called as `make release` wants it.
func CheckVersion(name string) error {
	parsed, err := version.ParseSemantic(name)
	if err != nil || name != "v"+parsed.String() || parsed.BuildMetadata() != "" {
		return fmt.Errorf("version is %q, must be vMAJOR.MINOR.PATCH, with -PRERELEASE behind it or not, for example v0.1.0", name)
	}
	return nil
}

// SortEntries puts entries into the order of their versions by Semantic Versioning, with those of the next release last.
func SortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		one, err := version.ParseSemantic(a.Version)
		other, otherErr := version.ParseSemantic(b.Version)
		switch {
		case err != nil && otherErr != nil:
			return strings.Compare(a.Version, b.Version)
		case err != nil:
			return 1
		case otherErr != nil || one.LessThan(other):
			return -1
		case other.LessThan(one):
			return 1
		default:
			return 0
		}
	})
}

// Record returns the entries with another one for the next release. It adds nothing if a release already has the figures of the same run.
func Record(entries []Entry, next Entry) []Entry {
	recorded := slices.DeleteFunc(slices.Clone(entries), func(old Entry) bool { return old.Version == Next })
	if slices.ContainsFunc(recorded, func(old Entry) bool { return old.Began.Equal(next.Began) }) {
		return recorded
	}
	next.Version = Next
	return append(recorded, next)
}

// Ratio compares the time of a variant with the time of the tuned reference. It returns false where such a comparison means nothing.
func (e Entry) Ratio(scenario, variant string) (Ratio, bool) {
	one, found := e.find(scenario, variant)
	tuned, foundTuned := e.find(scenario, ReferenceTuned)
	if !found || !foundTuned {
		return Ratio{}, false
	}
	return Compare(one, tuned)
}

func (e Entry) find(scenario, variant string) (Result, bool) {
	for _, one := range e.Results {
		if one.Scenario == scenario && one.Variant == variant {
			return Result{Seconds: one.Seconds, Complete: one.Complete}, true
		}
	}
	return Result{}, false
}

// Differences names what keeps ratios of two entries from being compared; none if they can be. Machines may differ.
func (e Entry) Differences(other Entry) []string {
	var differ []string
	if e.Reference != other.Reference {
		differ = append(differ, "another reference")
	}
	if e.Size != other.Size {
		differ = append(differ, "other sizes")
	}
	if e.Latency != other.Latency {
		differ = append(differ, "another latency")
	}
	return differ
}

// CheckFull returns an error that names every size of a full run that the entry was not measured with, and every main scenario
// whose figures it lacks.
func (e Entry) CheckFull(full Size) error {
	want := entrySize(full)
	var wrong []string
	for _, compared := range []struct {
		field     string
		got, want any
	}{
		{"nodes", e.Size.Nodes, want.Nodes},
		{"manyNodes", e.Size.ManyNodes, want.ManyNodes},
		{"quotaNodes", e.Size.QuotaNodes, want.QuotaNodes},
		{"services", e.Size.Services, want.Services},
		{"quotaRate", e.Size.QuotaRate, want.QuotaRate},
	} {
		if compared.got != compared.want {
			wrong = append(wrong, fmt.Sprintf("size.%s is %v, must be %v", compared.field, compared.got, compared.want))
		}
	}
	for _, scenario := range MainScenarios {
		for _, variant := range []string{ReferenceTuned, MooringPlain, MooringBulk} {
			if _, found := e.find(scenario, variant); !found {
				wrong = append(wrong, fmt.Sprintf("results lack %s of %s", scenario, variant))
			}
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}
