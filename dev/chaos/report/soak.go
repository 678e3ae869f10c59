package report

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Sample is what the leading manager uses at a time, from its metrics.
type Sample struct {
	// At is in seconds since the run began. Replica says which process it was: one that began anew has another number.
	At      float64 `json:"at"`
	Replica string  `json:"replica"`
	// Memory is the resident memory in bytes, Heap what of it are live objects.
	Memory     float64 `json:"memoryBytes"`
	Heap       float64 `json:"heapBytes"`
	Goroutines float64 `json:"goroutines"`
	Files      float64 `json:"openFiles"`
}

// measures are what has to be flat: a name, a value, and how much more there may be at the end, as a share and at least as a number.
var measures = []struct {
	name  string
	of    func(Sample) float64
	share float64
	least float64
}{
	{"heap (MiB)", func(s Sample) float64 { return s.Heap / (1 << 20) }, 0.25, 32},
	{"memory (MiB)", func(s Sample) float64 { return s.Memory / (1 << 20) }, 0.25, 64},
	{"goroutines", func(s Sample) float64 { return s.Goroutines }, 0.25, 100},
	{"open files", func(s Sample) float64 { return s.Files }, 0.25, 20},
}

// Growth is what one measure did between the second quarter of a soak and the last one: the medians of both.
type Growth struct {
	Measure string  `json:"measure"`
	Early   float64 `json:"early"`
	Late    float64 `json:"late"`
	// Most is the largest value that Late may have.
	Most float64 `json:"most"`
}

// Flat says whether it has not grown beyond what is allowed.
func (g Growth) Flat() bool { return g.Late <= g.Most }

// minSamples is how many samples there have to be to say anything.
const minSamples = 8

// Growths compares the second quarter of the samples with the last one: in the first one caches are filled. None: there are too few
// samples of one process.
func Growths(samples []Sample) []Growth {
	if len(samples) < minSamples || samples[0].Replica != samples[len(samples)-1].Replica {
		return nil
	}
	quarter := len(samples) / 4
	early, late := samples[quarter:2*quarter], samples[len(samples)-quarter:]
	var found []Growth
	for _, m := range measures {
		before := median(early, m.of)
		found = append(found, Growth{m.name, before, median(late, m.of), before + max(before*m.share, m.least)})
	}
	return found
}

func median(samples []Sample, of func(Sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// WriteGrowths writes what became of each measure, for a person, and returns whether all are flat.
func WriteGrowths(to io.Writer, samples []Sample) bool {
	growths := Growths(samples)
	if len(growths) == 0 {
		fmt.Fprintf(to, "\nNothing can be said of growth: %d samples, or the leader changed.\n", len(samples))
		return false
	}
	flat := true
	fmt.Fprintf(to, "\nWhat the leading manager uses, after a quarter of %s and at the end:\n",
		(time.Duration(samples[len(samples)-1].At) * time.Second).Round(time.Second))
	for _, g := range growths {
		fmt.Fprintf(to, "  %-14s %8.0f %8.0f  (at most %.0f)\n", g.Measure, g.Early, g.Late, g.Most)
		flat = flat && g.Flat()
	}
	return flat
}
