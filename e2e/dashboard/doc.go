// Package dashboard tests purser's dashboard with independent programs. Debian's Chromium, driven
// by playwright-core, signs in at the identity provider oidc-provider and uses the pages of a
// purser process. axe-core checks the pages. Money moves on the sandbox's chain.
//
// The tests cover what only a browser and a process can show: the whole journey, the transferred
// size and the look of a page, the keyboard, the time with a long history, and requests of
// strangers. Package dashboard tests the text of the pages.
package dashboard
