package notices

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/failpoint"
)

// destination is one place that notices go to, for tests of one.
type destination struct {
	settings []string
	got      func() ([]message, error)
}

func destinationOf(t *testing.T, name string) destination {
	t.Helper()
	if name == "mail" {
		post := startMail(t)
		return destination{post.settings(boss), post.got}
	}
	c := startChat(t)
	one := slices.DeleteFunc(strings.Split(strings.TrimPrefix(c.webhooks(), "PURSER_WEBHOOKS="), ","), func(u string) bool { return !strings.Contains(u, name) })
	return destination{[]string{"PURSER_WEBHOOKS=" + one[0]}, func() ([]message, error) {
		if faults := c.faults(); len(faults) > 0 {
			return nil, fmt.Errorf("not understood: %s", faults[0])
		}
		return c.got(name), nil
	}}
}

// A purser that is killed between the commit and the delivery delivers when it runs again. If it is killed after the
// delivery, the same message comes twice under one id.
func TestKilledBeforeDelivery(t *testing.T) {
	t.Parallel()
	for place, times := range map[string]int{failpoint.NoticeSending: 1, failpoint.NoticeSent: 2} {
		for _, name := range append(chatPaths(), "mail") {
			t.Run(place+" "+strings.Trim(name, "/"), func(t *testing.T) {
				t.Parallel()
				to := destinationOf(t, name)
				w := newWorld(t, to.settings...)
				w.purser.KilledAt(t, place, func() {
					w.served()
					_, _ = w.purser.Command(t, "pause", "--reason", "a test")
				})
				w.start()
				process.Eventually(t, patience, func() string {
					list, err := to.got()
					if err != nil {
						t.Fatal(err)
					}
					if len(list) >= times {
						return ""
					}
					return fmt.Sprintf("%d messages", len(list))
				})
				w.purser.Must(w.T, "resume") // what comes next comes behind all repeats
				var list []message
				process.Eventually(t, patience, func() (problem string) {
					var err error
					if list, err = to.got(); err != nil {
						t.Fatal(err)
					}
					if slices.ContainsFunc(list, func(m message) bool { return strings.Contains(m.text, "pays again") }) {
						return ""
					}
					return fmt.Sprintf("%d messages", len(list))
				})
				list = slices.DeleteFunc(list, func(m message) bool { return strings.Contains(m.text, "pays again") })
				if len(list) != times {
					t.Fatalf("%d messages, want %d", len(list), times)
				}
				for _, m := range list {
					if m.id == "" || m.id != list[0].id || !strings.Contains(m.text, "a test") {
						t.Errorf("message %+v", m)
					}
				}
			})
		}
	}
}
