package stdio

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// unansweredFor bounds how long a purchase without an answer is kept. A payment is valid for less.
const unansweredFor = 7 * time.Minute

// Bounds on the answers of cancelled calls that are kept.
const (
	maxLate      = 16
	maxLateBytes = 1 << 20 // of one
)

// purchases keeps the names of purchases whose answers have not come, one file each. A file is locked while a call of a
// process works on it. So a process that was killed leaves the file, and the next equal call goes on with it.
type purchases struct {
	dir, of string // of: what all purchases of this process have in common
	now     func() time.Time

	mu   sync.Mutex
	late []*late
}

// late is a call that was cancelled while its payment was on its way. The server goes on with it.
type late struct {
	purchase *purchase
	done     chan struct{} // closed at its end
	answer   []byte        // once it has ended; nil: none
	since    time.Time     // of the end
}

// purchase is one purchase that a call works on.
type purchase struct {
	name    string // the idempotency key
	content string
	lock    *flock.Flock
	fresh   bool // no earlier call has worked on it
}

func newPurchases(dir string, now func() time.Time, of ...string) (*purchases, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of purchases without an answer: %w", err)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("naming the server: %w", err)
	}
	return &purchases{dir: dir, of: string(text), now: now}, nil
}

// claim returns the purchase for a content whose answer has not come and that no call works on; else a new one.
func (p *purchases) claim(key, content string) (*purchase, error) {
	sum := sha256.Sum256([]byte(p.of + "\n" + key + "\n" + content))
	beginning := "mcp-" + hex.EncodeToString(sum[:20]) + "-"
	list, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("looking for purchases: %w", err)
	}
	for _, entry := range list {
		if !strings.HasPrefix(entry.Name(), beginning) {
			continue
		}
		lock, err := p.take(filepath.Join(p.dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return &purchase{entry.Name(), content, lock, false}, nil
		}
	}
	for {
		name := beginning + rand.Text()
		lock := flock.New(filepath.Join(p.dir, name), flock.SetPermissions(0o600))
		switch taken, err := lock.TryLock(); {
		case err != nil:
			return nil, fmt.Errorf("keeping a purchase: %w", errors.Join(err, lock.Close()))
		case taken:
			return &purchase{name, content, lock, true}, nil
		}
		_ = lock.Close() // another process was quicker, and has the purchase
	}
}

// take locks a file. It returns nil for one that another call has, that is gone, or too old, which it removes.
func (p *purchases) take(path string) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	taken, err := lock.TryLock()
	if errors.Is(err, os.ErrNotExist) || err == nil && !taken {
		return nil, lock.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("locking a purchase: %w", errors.Join(err, lock.Close()))
	}
	locked, err := lock.Stat()
	named, failed := os.Stat(path)
	if err != nil || failed != nil || !os.SameFile(locked, named) { // it was removed meanwhile
		return nil, lock.Close()
	}
	if age := p.now().Sub(locked.ModTime()); age > unansweredFor {
		return nil, removeLocked(lock)
	}
	return lock, nil
}

// end gives a purchase up. answered: the next equal call is a new purchase. Else it is the same one.
func (p *purchases) end(of *purchase, answered bool) error {
	if answered {
		return removeLocked(of.lock)
	}
	if of.fresh { // a repeat keeps the time that it had
		now := p.now()
		return errors.Join(os.Chtimes(of.lock.Path(), now, now), of.lock.Close())
	}
	return of.lock.Close()
}

// removeLocked removes a file before it is free. Where open files cannot be removed, it does so after that.
func removeLocked(lock *flock.Flock) error {
	err := os.Remove(lock.Path())
	failed := lock.Close()
	if err != nil {
		err = os.Remove(lock.Path())
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, failed)
}

// abandon keeps a purchase whose call was cancelled, for the next equal call. The returned function tells the answer
// that has come all the same; nil: there is none.
func (p *purchases) abandon(of *purchase) func(answer []byte) {
	l := &late{purchase: of, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = append(p.late, l)
	return func(answer []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l.since = p.now(); len(answer) <= maxLateBytes {
			l.answer = answer
		}
		close(l.done)
		p.prune()
	}
}

// prune forgets what has no answer, is too old, or is too much. p.mu is held.
func (p *purchases) prune() {
	answered := 0
	p.late = slices.DeleteFunc(p.late, func(l *late) bool {
		if !l.ended() {
			return false
		}
		if l.answer != nil && p.now().Sub(l.since) <= unansweredFor && answered < maxLate {
			answered++
			return false
		}
		_ = p.end(l.purchase, false) // its file stays
		return true
	})
}

func (l *late) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// lateAnswer waits for the end of a cancelled call with a content. It returns the answer with its purchase, which the
// caller ends; nil: there is none.
func (p *purchases) lateAnswer(ctx context.Context, content string) (*late, error) {
	for {
		p.mu.Lock()
		p.prune()
		i := slices.IndexFunc(p.late, func(l *late) bool { return l.purchase.content == content })
		if i < 0 {
			p.mu.Unlock()
			return nil, nil
		}
		l := p.late[i]
		if l.ended() {
			p.late = slices.Delete(p.late, i, i+1)
			p.mu.Unlock()
			return l, nil
		}
		p.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// close lets all purchases go whose cancelled calls have ended.
func (p *purchases) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.late {
		if l.ended() {
			_ = p.end(l.purchase, false)
		}
	}
	p.late = nil
}
