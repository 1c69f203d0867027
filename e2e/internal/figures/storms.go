package figures

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// stormsFile holds the figures of storms, below the root of the repository.
const stormsFile = "e2e/bench/storms.json"

// Storms are purchases of clients at a seller of MPP that behaves badly.
type Storms struct {
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
	Cores  int       `json:"cores"`
	Load   float64   `json:"load_before"` // average of the minute before
	Rows   []Storm   `json:"rows"`
}

// Storm is a number of equal runs of one client at one way of the seller.
type Storm struct {
	Client string `json:"client"`
	// Seller says how it behaves, and Rail what it takes.
	Seller      string `json:"seller"`
	Rail        string `json:"rail"`
	Purchases   int    `json:"purchases"` // of each run, at once
	Answers     Range  `json:"answers"`
	Credentials Range  `json:"credentials"` // that the client has signed, as far as the seller saw them
	Debits      Range  `json:"debits"`
}

// Range holds the least and the greatest of some runs. The zero one has seen none.
type Range struct {
	Runs  int `json:"runs"`
	Least int `json:"least"`
	Most  int `json:"most"`
}

// Add takes the figure of one more run.
func (r *Range) Add(n int) {
	if r.Runs++; r.Runs == 1 {
		r.Least, r.Most = n, n
	}
	r.Least, r.Most = min(r.Least, n), max(r.Most, n)
}

func (r Range) String() string {
	if r.Least == r.Most {
		return fmt.Sprint(r.Least)
	}
	return fmt.Sprintf("%d–%d", r.Least, r.Most)
}

// ReadStorms reads the figures that Save wrote.
func ReadStorms(root string) (s Storms, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(stormsFile)))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// Save writes the figures into the repository.
func (s *Storms) Save(root string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(stormsFile)), append(text, '\n'), 0o600)
}
