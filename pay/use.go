package pay

import (
	"context"
	"maps"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/policy"
)

const (
	// UseEvery is the time within which a key's use at a door is written once.
	UseEvery = 10 * time.Minute
	// useTime bounds the write.
	useTime = 5 * time.Second
	// maxUses bounds the keys and doors whose last write is remembered.
	maxUses = 50_000
)

// Use tells when a key was used at a door, for a payment or for anything else.
type Use struct {
	KeyID string
	Door  policy.Door
	At    time.Time
}

// Apply is the KeyEdit that notes the use. It changes nothing if a use was noted less than UseEvery before.
func (u Use) Apply(k Key) (Key, bool, error) {
	if u.At.Sub(k.Used[u.Door]) < UseEvery {
		return k, false, nil
	}
	k.Used = maps.Clone(k.Used) // stores share what a row points to
	if k.Used == nil {
		k.Used = map[policy.Door]time.Time{}
	}
	k.Used[u.Door] = u.At
	return k, true, nil
}

type useOf struct {
	keyID string
	door  policy.Door
}

// useLog remembers which uses were written, as far as it has room. A use that it forgets is written again, which changes nothing.
type useLog struct{ written *lru.Cache[useOf, time.Time] }

func newUseLog() useLog { return useLog{perclient.NewCache[useOf, time.Time](maxUses)} }

// due reports whether a use is to be written, and remembers that it is.
func (l useLog) due(u Use) bool {
	of := useOf{u.KeyID, u.Door}
	if last, known := l.written.Get(of); known && u.At.Sub(last) < UseEvery {
		return false
	}
	l.written.Add(of, u.At)
	return true
}

// NoteUse notes that a request of a key came to a door. It writes in the background, and what cannot be written
// is left out: the next use is.
func (p *Payer) NoteUse(keyID string, door policy.Door) {
	u := Use{keyID, door, p.now().UTC().Truncate(time.Second)}
	if keyID == "" || !p.uses.due(u) || p.enter() != nil {
		return
	}
	go func() { // Close waits for it
		defer p.background.Done()
		ctx, stop := context.WithTimeout(context.Background(), useTime)
		defer stop()
		if err := p.store.NoteUse(ctx, u); err != nil {
			p.log.Debug("the use of a key is not noted", "key", keyID, "door", door, "error", err)
		}
	}()
}
