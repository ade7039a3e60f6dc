// Keep this page on the visitor's computer. Each file is stored only if its hash is the one listed here.

const FILES = $files; // hashes by name
const PREFIX = `dptransfer $${self.registration.scope} `, STORE = `$${PREFIX}$digest`;
const addressOf = (name) => new URL(name, self.registration.scope).href;

self.addEventListener("install", (event) => event.waitUntil((async () => {
  const store = await caches.open(STORE);
  await Promise.all(Object.entries(FILES).map(async ([name, sha256]) => {
    const answer = await fetch(addressOf(name), { cache: "no-cache", integrity: `sha256-$${sha256}` });
    if (!answer.ok) throw new Error(name);
    await store.put(addressOf(name), answer);
  }));
  await self.skipWaiting();
})()));

self.addEventListener("activate", (event) => event.waitUntil((async () => {
  const former = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== STORE);
  await Promise.all(former.map((name) => caches.delete(name)));
  await self.clients.claim();
})()));

self.addEventListener("fetch", (event) => {
  const asked = event.request.url.split(/[?#]/)[0];
  const address = asked === self.registration.scope ? addressOf("index.html") : asked;
  if (event.request.method !== "GET" || !Object.keys(FILES).some((name) => addressOf(name) === address)) return;
  event.respondWith((async () => (await (await caches.open(STORE)).match(address)) ?? fetch(event.request))());
});
