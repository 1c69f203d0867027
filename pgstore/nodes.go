package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// settingNode begins the names of the settings in which nodes tell about themselves.
	settingNode = "node/"
	// tellEvery is the interval at which a node tells the others that it is there.
	tellEvery = 10 * time.Second
	// nodeFor is the age from which the word of a node no longer counts.
	nodeFor = time.Minute
	// maxDiffers bounds the differences that are told.
	maxDiffers = 5
)

// nodes compares the configuration of this node with those of the others.
type nodes struct {
	mu      sync.Mutex
	own     nodeWord
	told    time.Time // by the local clock
	differs []string
}

// nodeWord is the setting in which a node tells about itself.
type nodeWord struct {
	Host string    `json:"host"`
	At   time.Time `json:"at"`
	// Terms holds what must be the same on all nodes, by the names of options.
	Terms map[string]string `json:"terms"`
}

// Announce tells the other nodes by what limits this one pays. All nodes must have the same: each
// decides by its own. The terms have no secrets. It returns at once.
func (d *DB) Announce(terms map[string]string) {
	host, err := os.Hostname()
	if err != nil {
		host = "a node"
	}
	d.nodes.mu.Lock()
	defer d.nodes.mu.Unlock()
	d.nodes.own, d.nodes.told = nodeWord{Host: host, Terms: maps.Clone(terms)}, time.Time{}
}

// Differences lists the terms that other nodes have other values of, for people.
func (d *DB) Differences() []string {
	d.nodes.mu.Lock()
	defer d.nodes.mu.Unlock()
	return slices.Clone(d.nodes.differs)
}

// meetNodes tells the others about this node, and compares what they tell, every tellEvery.
func (d *DB) meetNodes(ctx context.Context) error {
	n := &d.nodes
	n.mu.Lock()
	own, due := n.own, d.time.local().Sub(n.told) >= tellEvery
	n.mu.Unlock()
	if own.Terms == nil || !due {
		return nil
	}
	own.At = d.Now().UTC()
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var differs, gone []string
	err = d.each(ctx, func(r pgx.Rows) error {
		var name string
		var value []byte
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		var other nodeWord
		switch age := own.At.Sub(other.read(value)); {
		case name == settingNode+d.node:
		case age > nodeFor:
			gone = append(gone, name)
		default:
			differs = append(differs, own.against(other)...)
		}
		return nil
	}, `WITH told AS (INSERT INTO settings VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value)
		SELECT name, value FROM settings WHERE name LIKE $3 ORDER BY name`, settingNode+d.node, text, settingNode+"%")
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		if _, err := d.pool.Exec(ctx, `DELETE FROM settings WHERE name = ANY($1)`, gone); err != nil {
			return err
		}
	}
	slices.Sort(differs)
	differs = slices.Compact(differs)
	if more := len(differs) - maxDiffers; more > 0 {
		differs = append(differs[:maxDiffers], fmt.Sprintf("and %d more", more))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = d.time.local()
	switch {
	case slices.Equal(differs, n.differs):
	case len(differs) == 0:
		d.log.InfoContext(ctx, "store: all nodes have the same limits")
	default:
		d.log.WarnContext(ctx, "store: nodes have other limits, and each pays by its own", "differences", strings.Join(differs, "; "))
	}
	n.differs = differs
	return nil
}

// leaveNodes takes back what this node has told the others.
func (d *DB) leaveNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	_, _ = d.pool.Exec(ctx, `DELETE FROM settings WHERE name = $1`, settingNode+d.node) // it grows old otherwise
}

// read takes the word of a setting, and returns its time: zero if it cannot be read.
func (w *nodeWord) read(value []byte) time.Time {
	if json.Unmarshal(value, w) != nil {
		return time.Time{}
	}
	return w.At
}

// against lists the terms that another node has other values of.
func (w nodeWord) against(other nodeWord) (differs []string) {
	for _, name := range slices.Sorted(maps.Keys(w.Terms)) {
		theirs, has := other.Terms[name]
		if mine := w.Terms[name]; has && mine != theirs { // a node of another version may not have it
			differs = append(differs, fmt.Sprintf("%s is %s on %s, and %s here", name, shortTerm(theirs), other.Host, shortTerm(mine)))
		}
	}
	return differs
}

// shortTerm bounds a value that is told.
func shortTerm(value string) string {
	const most = 100
	if len(value) > most {
		value = value[:most] + "…"
	}
	return cmp.Or(strings.ToValidUTF8(value, ""), "not set")
}
