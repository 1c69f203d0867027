package perclient

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Memory holds values by name for each client apart: no client's values take the room of
// another's. It is safe for concurrent use.
type Memory[K comparable, V any] struct {
	each int

	mu      sync.Mutex
	clients *simplelru.LRU[string, *simplelru.LRU[K, V]]
}

// NewMemory returns a Memory of at most this many values for each client.
func NewMemory[K comparable, V any](each int) *Memory[K, V] {
	return &Memory[K, V]{each: each, clients: newLRU[string, *simplelru.LRU[K, V]](maxClients)}
}

// Get returns a value, or the zero value if there is none.
func (m *Memory[K, V]) Get(client string, name K) (value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if values, ok := m.clients.Get(client); ok {
		value, _ = values.Get(name)
	}
	return value
}

// GetOrAdd returns a value. If there is none, GetOrAdd adds a fresh one.
func (m *Memory[K, V]) GetOrAdd(client string, name K, fresh func() V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.of(client)
	value, ok := values.Get(name)
	if !ok {
		value = fresh()
		values.Add(name, value)
	}
	return value
}

// Set adds or replaces a value.
func (m *Memory[K, V]) Set(client string, name K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(client).Add(name, value)
}

// of returns the values of a client, which may be new. Its caller must hold mu.
func (m *Memory[K, V]) of(client string) *simplelru.LRU[K, V] {
	values, ok := m.clients.Get(client)
	if !ok {
		values = newLRU[K, V](m.each)
		m.clients.Add(client, values)
	}
	return values
}

// Remove forgets a value.
func (m *Memory[K, V]) Remove(client string, name K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if values, ok := m.clients.Peek(client); ok {
		if values.Remove(name); values.Len() == 0 {
			m.clients.Remove(client)
		}
	}
}

// Prune forgets values of a client, from the one that was unused the longest to the first that is not old.
func (m *Memory[K, V]) Prune(client string, old func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values, ok := m.clients.Peek(client)
	for ok {
		_, value, any := values.GetOldest()
		if !any || !old(value) {
			return
		}
		values.RemoveOldest()
	}
}

// NewCache returns a cache of this size, which must be at least 1. It is safe for concurrent use.
func NewCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the size is a constant
	}
	return cache
}

// newLRU is NewCache for a caller that has a lock.
func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	cache, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil {
		panic(err)
	}
	return cache
}
