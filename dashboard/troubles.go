package dashboard

import (
	"context"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/trouble"
)

// documentation leads to the pages that troubles name.
const documentation = "https://github.com/purserpay/purser/blob/main/docs/"

// troubles is the bar above all pages: the worst, and the others behind a click.
type troubles struct{ First, More []shownTrouble }

type shownTrouble struct {
	Class, Effect   string
	Says, Means, Do string
	Since           moment
	Path, Docs      string
}

const (
	// shownTroubles counts those that the bar shows without a click.
	shownTroubles = 2
	// troublesTime bounds how long a page waits for them: an RPC that hangs must not hold up all pages.
	troublesTime = time.Second
)

// Any reports whether something is wrong.
func (t troubles) Any() bool { return len(t.First)+len(t.More) > 0 }

// MoreText names the part behind the click.
func (t troubles) MoreText() string {
	text := count(len(t.More)) + " more to look at"
	if len(t.First) == 0 {
		text = strings.Replace(text, " more", "", 1)
	}
	return text
}

// troubles lists what is wrong for those who see all of purser.
func (d *dashboard) troubles(ctx context.Context, v visit) (bar troubles) {
	if d.Troubles == nil || !v.operator() {
		return bar
	}
	ctx, cancel := context.WithTimeout(ctx, troublesTime)
	defer cancel()
	for _, t := range d.Troubles(ctx) {
		shown := shownTrouble{
			Effect: map[trouble.Effect]string{trouble.Stops: "Stops payments", trouble.Soon: "Will stop payments", trouble.Look: "To look at"}[t.Effect],
			Class:  map[trouble.Effect]string{trouble.Stops: "note-bad", trouble.Soon: "note-warn"}[t.Effect],
			Says:   t.Says, Means: t.Means, Do: t.Do, Since: recent(t.Since, v.now), Path: t.Path, Docs: documentation + t.Page,
		}
		if len(bar.First) < shownTroubles && t.Effect != trouble.Look {
			bar.First = append(bar.First, shown)
		} else {
			bar.More = append(bar.More, shown)
		}
	}
	return bar
}
