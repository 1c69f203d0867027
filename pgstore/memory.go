package pgstore

import lru "github.com/hashicorp/golang-lru/v2"

// memoryRows bounds what a node remembers of each sort.
const memoryRows = 50_000

// memory remembers things that never change, so that forgetting them costs only time.
type memory[T any] struct{ *lru.Cache[string, T] }

func newMemory[T any](rows int) memory[T] {
	m, err := lru.New[string, T](rows)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return memory[T]{m}
}
