// What a page of somebody else tries, and what comes of each; 'failed' is good.
async (app) => {
  const said = {}
  const attempt = async (name, how) => {
    try { said[name] = await how() } catch (problem) { said[name] = 'failed' }
  }
  const form = new URLSearchParams({ data: 'evil', name: 'evil', check: '1', token: 'evil' })
  const file = new FormData()
  file.append('data', new Blob(['evil']), 'evil.npz')
  for (const [name, path] of Object.entries({ page: app.room + 'data', status: app.room + 'status', door: '' })) {
    await attempt('read ' + name, async () => (await fetch(app.url + path, { credentials: 'include' })).text())
    await attempt('opaque ' + name, async () => {
      const got = await fetch(app.url + path, { mode: 'no-cors', credentials: 'include' })
      return got.type === 'opaque' ? 'failed' : got.type
    })
  }
  for (const path of ['data', 'who', 'charge', 'stop', 'pick', '../open']) {
    const send = { method: 'POST', mode: 'no-cors', credentials: 'include' }
    await attempt('post ' + path, async () => (await fetch(app.url + app.room + path, { ...send, body: form })).text())
    await attempt('upload ' + path, async () => (await fetch(app.url + app.room + path, { ...send, body: file })).text())
  }
  await attempt('frame', async () => {
    const frame = document.createElement('iframe')
    frame.src = app.url + app.room + 'data'
    document.body.append(frame)
    await new Promise((done) => { frame.onload = done; setTimeout(done, 3000) })
    return frame.contentDocument === null ? 'failed' : frame.contentDocument.body.textContent
  })
  await attempt('script', () => new Promise((done) => {
    const script = document.createElement('script')
    script.onload = () => done('loaded')
    script.onerror = () => done('failed')
    script.src = app.url + app.room + 'status'
    document.body.append(script)
  }))
  await attempt('window', async () => {
    const opened = window.open(app.url + app.room + 'data')
    await new Promise((done) => setTimeout(done, 1500))
    if (opened === null) return 'failed'
    const text = opened.closed ? '' : opened.document.body.textContent
    opened.close()
    return text === '' ? 'failed' : text
  })
  return said
}
