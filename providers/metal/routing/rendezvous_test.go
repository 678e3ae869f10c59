package routing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func choose(key string, candidates []string, limit int) []string {
	hashes := make([]uint64, len(candidates))
	for i, name := range candidates {
		hashes[i] = Hash(name)
	}
	var chosen []string
	for _, i := range Rendezvous(Hash(key), hashes, limit) {
		chosen = append(chosen, candidates[i])
	}
	slices.Sort(chosen)
	return chosen
}

var names = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}-[0-9]{1,3}`), 1, 40, rapid.ID[string])

func TestChoiceDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates, limit := names.Draw(t, "candidates"), rapid.IntRange(1, 12).Draw(t, "limit")
		shuffled := rapid.Permutation(candidates).Draw(t, "shuffled")
		if a, b := choose("10.0.0.1", candidates, limit), choose("10.0.0.1", shuffled, limit); !slices.Equal(a, b) {
			t.Fatalf("%v and, in another order, %v", a, b)
		}
	})
}

func TestOneThatGoesIsReplacedByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates, limit := names.Draw(t, "candidates"), rapid.IntRange(1, 12).Draw(t, "limit")
		gone := rapid.IntRange(0, len(candidates)-1).Draw(t, "gone")
		before := choose("10.0.0.1", candidates, limit)
		after := choose("10.0.0.1", slices.Delete(slices.Clone(candidates), gone, gone+1), limit)
		if want := min(limit, len(candidates)-1); len(after) != want {
			t.Fatalf("%d are chosen, want %d", len(after), want)
		}
		for _, name := range before {
			if name != candidates[gone] && !slices.Contains(after, name) {
				t.Fatalf("without %s, %s is no longer chosen", candidates[gone], name)
			}
		}
	})
}

func TestLoadIsSpread(t *testing.T) {
	const keys, limit = 10_000, 8
	var candidates []string
	for i := range 100 {
		candidates = append(candidates, fmt.Sprintf("node-%03d", i))
	}
	load := map[string]int{}
	for i := range keys {
		for _, name := range choose(fmt.Sprintf("192.0.%d.%d", i/256, i%256), candidates, limit) {
			load[name]++
		}
	}
	const mean = keys * limit / 100
	for _, name := range candidates {
		if load[name] < mean*8/10 || load[name] > mean*12/10 {
			t.Errorf("%s was chosen %d times, the mean is %d", name, load[name], mean)
		}
	}
}
