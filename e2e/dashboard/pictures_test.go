package dashboard

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
)

var docs = flag.String("dashboard.docs", "", "folder for the pictures of README and docs; without it they are not taken")

// shot is a page that documents show, in a window of a size in pixels.
type shot struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// TestPicturesOfDocuments takes the pictures of README and docs: of a history, with payments of today that the sandbox's
// chain has settled. See pictures.mjs.
func TestPicturesOfDocuments(t *testing.T) {
	if *docs == "" {
		t.Skip("make pictures takes them")
	}
	needBrowser(t)
	h := newHouse(t, "PURSER_APPROVAL_WAIT=off", "PURSER_DAILY_BUDGET=25")
	var agents []paid
	for _, label := range []string{"research", "nightly", "support"} {
		agent, err := h.newKey(label)
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, agent)
	}
	var known struct {
		Keys []struct {
			ID    string `json:"id"`
			Label string `json:"label"`
		} `json:"keys"`
	}
	h.ran(&known, "keys", "--json")
	var ids []string
	for _, a := range []string{"research", "nightly", "support"} {
		for _, k := range known.Keys {
			if k.Label == a {
				ids = append(ids, k.ID)
			}
		}
	}
	if len(ids) != len(agents) {
		t.Fatalf("keys %+v", known)
	}
	h.fill(995, ids, "-paid-only") // every thousandth payment is disputed
	for i, task := range []string{"crawl", "summary", "answers", "crawl", "answers", "crawl", "crawl"} {
		if err := h.buy(agents[i%len(agents)].Key, task, h.world.SellerURL()+fmt.Sprintf("/weather?city=%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, budget := range []string{"0.10", "0.20", "0.50"} {
		h.purser.Must(t, "limits", ids[i], "--daily-budget", budget)
	}
	if err := h.unpaid(agents[1].Key, "crawl", h.world.SellerURL()+"/weather?city=oslo", "max-amount", "Purser-Max-Amount", "0.000001"); err != nil {
		t.Fatal(err)
	}
	h.purser.Must(t, "limits", ids[0], "--require-approval-above", "0.005")
	if err := h.unpaid(agents[0].Key, "crawl", h.world.SellerURL()+"/weather?city=berlin", "approval-needed"); err != nil {
		t.Fatal(err)
	}
	var waits struct {
		Approvals []struct {
			ID string `json:"id"`
		} `json:"approvals"`
	}
	h.ran(&waits, "approvals", "--json")
	if len(waits.Approvals) != 1 {
		t.Fatalf("approvals %+v", waits)
	}
	var links []string
	for range 2 { // light, dark
		var link struct{ URL string }
		h.ran(&link, "dashboard", "--json")
		links = append(links, link.URL)
	}
	folder, err := filepath.Abs(*docs)
	if err != nil {
		t.Fatal(err)
	}
	drive(t, "pictures.mjs", nil, "BASE", h.url(""), "LINKS", text(t, links), "FOLDER", folder, "SHOTS", text(t, []shot{
		{"overview", "/dashboard/", 1280, 960},
		{"payments", "/dashboard/payments", 1280, 760},
		{"approval", "/dashboard/approvals/" + waits.Approvals[0].ID, 390, 844},
	}))
}

// ran reads what a command of purser prints as JSON.
func (h *house) ran(into any, args ...string) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.purser.Must(h.t, args...)), into); err != nil {
		h.t.Fatalf("%v: %v", args, err)
	}
}
