package routing

import (
	"hash/fnv"
	"slices"
)

// Hash returns a hash of which every bit depends on the whole text.
func Hash(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))
	return mix(hash.Sum64())
}

// mix is the finalizer of SplitMix64: FNV alone leaves texts that end alike close to each other.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Rendezvous returns the indices of at most limit of the candidates for a key, the best first, by rendezvous hashing (Thaler and
// Ravishankar, 1998). Key and candidates are given by their Hash; those of the candidates are distinct.
//
// Replicas that choose among the same candidates choose the same. A candidate that goes is replaced by one other wherever it was
// chosen, one that comes replaces at most one, and nothing else moves.
func Rendezvous(key uint64, candidates []uint64, limit int) []int {
	if limit = min(limit, len(candidates)); limit <= 0 {
		return nil
	}
	chosen, scores := make([]int, 0, limit+1), make([]uint64, 0, limit+1)
	for i, candidate := range candidates {
		score := mix(key ^ candidate)
		if len(scores) == limit && score <= scores[limit-1] {
			continue
		}
		at := len(scores)
		for at > 0 && score > scores[at-1] {
			at--
		}
		scores, chosen = slices.Insert(scores, at, score), slices.Insert(chosen, at, i)
		size := min(len(scores), limit)
		scores, chosen = scores[:size], chosen[:size]
	}
	return chosen
}
